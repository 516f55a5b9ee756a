import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Cpu } from "lucide-react";
import { useState } from "react";
import { useLocal } from "@/app/local";
import { useOtherTabs } from "@/data/chats";
import { useRunningModels } from "@/data/inference";
import { useMay } from "@/data/session";
import { Drawer } from "@/kit/drawer";
import { EmptyState } from "@/kit/empty-state";
import { ErrorState } from "@/kit/error-state";
import { ButtonLink } from "@/kit/link";
import { useMedia } from "@/kit/media";
import { toastError } from "@/kit/toast";
import { useSetUrl, useUrlState } from "@/kit/url-state";
import { useT } from "../t";
import { stopAnswer } from "./answer";
import { ChatBar } from "./chat-bar";
import { Columns } from "./columns";
import { Composer } from "./composer";
import { ContextMeter } from "./context-meter";
import { DeleteChats, type ToDelete } from "./delete-chats";
import { DEFAULTS, type Parameters } from "./parameters";
import { ParametersPanel } from "./parameters-panel";
import { useFailure, useUnsaved, useWriting } from "./running";
import { Sessions } from "./sessions";
import { begin, type Question, say } from "./talk";
import { usePanes } from "./use-panes";

/** Chats with one to four models: the list of chats, the conversations, the field for the next question, the parameters. */
export default function ChatPage() {
  const t = useT();
  const client = useQueryClient();
  const navigate = useNavigate();
  const may = useMay();
  const setUrl = useSetUrl();
  const wide = useMedia("(min-width: 768px)");
  const veryWide = useMedia("(min-width: 1200px)");
  const [panel, setPanel] = useUrlState("panel");
  const [kept, keepParameters] = useLocal<Parameters>("parameters", DEFAULTS);
  const parameters = { ...DEFAULTS, ...kept };
  const [editing, setEditing] = useState<number | null>(null);
  const [deleting, setDeleting] = useState<ToDelete | null>(null);
  const running = useRunningModels();
  const generating = running.data?.filter((it) => it.task === "generate");
  const { panes, sessions, constraints, setModel, removePane, oneMore } = usePanes(generating);
  const reading = useWriting(sessions);
  const writing = reading || panes.some((it) => it.answering);
  const unsaved = useUnsaved(sessions);
  const refused = useFailure(sessions);
  useOtherTabs();

  const send = async (question: Question) => {
    if (sessions.length === 0) {
      const [id = "", ...others] = await begin(
        client,
        panes.map((it) => it.model),
        parameters,
        question,
      );
      const search = { with: others.join() || undefined, panel: panel || undefined };
      await navigate({ to: "/playground/$id", params: { id }, search });
      return;
    }
    await Promise.all(
      panes.map(({ session = "", model, turns }) =>
        say(client, { session, model, parameters }, turns, question),
      ),
    );
    setUrl({ at: undefined });
  };
  const stopped = panes.find((it) => !generating?.some((one) => one.served_model_name === it.model));
  const notRunning = generating && stopped ? t.composer.stopped(stopped.model || t.turn.model) : undefined;
  // Behind an answer that is not stored nothing can stand.
  const blocked = unsaved ? t.composer.unsaved : notRunning;
  const list = <Sessions open={sessions} onDelete={setDeleting} />;
  const settings = (
    <ParametersPanel
      parameters={parameters}
      onParameters={keepParameters}
      constraints={constraints}
      error={refused}
    />
  );
  if (running.error && !running.data) return <ErrorState error={running.error} onRetry={running.refetch} />;
  return (
    <div className="flex min-h-0 flex-1">
      {wide && <aside className="flex w-60 shrink-0 flex-col border-line border-r">{list}</aside>}
      <div className="flex min-w-0 flex-1 flex-col">
        <ChatBar
          panes={panes}
          models={generating ?? []}
          constraints={constraints}
          parameters={parameters}
          onModel={setModel}
          oneMore={oneMore}
          panel={panel}
          onPanel={setPanel}
          narrow={!wide}
        />
        {generating?.length === 0 && sessions.length === 0 ? (
          <div className="flex flex-1 items-center">
            <EmptyState
              icon={Cpu}
              title={t.empty.noModel}
              action={
                may("startModel") && (
                  <ButtonLink to="/models" look="primary">
                    {t.empty.toModels}
                  </ButtonLink>
                )
              }
            >
              {t.empty.noModelText}
            </EmptyState>
          </div>
        ) : (
          <>
            <Columns
              panes={panes}
              models={generating ?? []}
              parameters={parameters}
              editing={editing}
              onEditing={setEditing}
              onModel={setModel}
              onRemove={removePane}
            />
            <div className="mx-auto w-full max-w-3xl px-4 pt-2 pb-3 md:px-6">
              <Composer
                key={sessions[0] ?? "new"}
                draft={sessions[0] ?? "new"}
                writing={writing}
                blocked={blocked}
                blind={panes.find((_, at) => constraints[at]?.supports_vision === false)?.model}
                onSend={send}
                aside={
                  panes.length === 1 && sessions.length > 0 ? (
                    <ContextMeter turns={panes[0]?.turns ?? []} context={constraints[0]?.max_model_len} />
                  ) : undefined
                }
                onStop={() => sessions.map((it) => stopAnswer(it).catch(toastError))}
                onEditLast={() => {
                  const last = panes[0]?.turns.findLast((it) => it.role === "user");
                  if (last && panes.length === 1 && !writing) setEditing(last.id);
                }}
              />
            </div>
          </>
        )}
      </div>
      {panel === "parameters" && veryWide && (
        <aside
          aria-label={t.parameters.title}
          className="w-80 shrink-0 overflow-y-auto border-line border-l p-4"
        >
          {settings}
        </aside>
      )}
      {!veryWide && (
        <Drawer open={panel === "parameters"} onClose={() => setPanel("")} title={t.parameters.title}>
          {settings}
        </Drawer>
      )}
      {!wide && (
        <Drawer open={panel === "chats"} onClose={() => setPanel("")} title={t.sessions.label}>
          {list}
        </Drawer>
      )}
      <DeleteChats
        what={deleting}
        onClose={() => setDeleting(null)}
        onDeleted={async (id) => {
          if (id === null || sessions.includes(id)) await navigate({ to: "/playground" });
        }}
      />
    </div>
  );
}
