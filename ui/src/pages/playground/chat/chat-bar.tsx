import { useNavigate } from "@tanstack/react-router";
import { Code, Columns2, History, MessageSquarePlus, SlidersHorizontal } from "lucide-react";
import { useState } from "react";
import type { Constraints, RunningModel } from "@/data/inference";
import { Badge } from "@/kit/badge";
import { Button, IconButton } from "@/kit/button";
import { useT } from "../t";
import { CopyDialog } from "./copy-dialog";
import { ModelPicker } from "./model-picker";
import { countSet, type Parameters } from "./parameters";
import { requestOf } from "./request";
import { MOST_PANES, type PaneOf } from "./use-panes";

type ChatBarProps = {
  panes: PaneOf[];
  models: RunningModel[];
  constraints: (Constraints | undefined)[];
  parameters: Parameters;
  onModel: (at: number, model: string) => void;
  oneMore: () => Record<string, string>;
  panel: string;
  onPanel: (to: string) => void;
  narrow: boolean;
};

/** Above a conversation: its model, and what can be done with it as a whole. */
export function ChatBar(props: ChatBarProps) {
  const { panes, models, constraints, parameters, onModel, oneMore, panel, onPanel, narrow } = props;
  const t = useT();
  const navigate = useNavigate();
  const [copying, setCopying] = useState(false);
  const [pane] = panes;
  const set = countSet(parameters);
  const asked = pane?.turns.slice(0, pane.turns.findLastIndex((it) => it.role === "user") + 1) ?? [];
  const compare = () =>
    void navigate({ to: "/playground", search: { ...oneMore(), panel: panel || undefined } });
  return (
    <div className="flex h-12 shrink-0 items-center gap-1 border-line border-b px-3">
      {narrow && (
        <>
          <IconButton icon={History} label={t.sessions.label} onClick={() => onPanel("chats")} />
          <IconButton
            icon={MessageSquarePlus}
            label={t.sessions.fresh}
            onClick={() => void navigate({ to: "/playground" })}
          />
        </>
      )}
      <div className="min-w-0 flex-1">
        {panes.length === 1 && pane ? (
          <ModelPicker value={pane.model} onValue={(to) => onModel(0, to)} models={models} />
        ) : (
          <span className="px-1 text-ink-2 text-sm">{t.compare.of(panes.length)}</span>
        )}
      </div>
      <div className="flex shrink-0 items-center gap-1">
        {panes.length < MOST_PANES && models.length > 0 && (
          <IconButton
            icon={Columns2}
            label={panes.length > 1 ? t.compare.add : t.compare.start}
            onClick={compare}
          />
        )}
        <IconButton
          icon={Code}
          label={t.copy.title}
          disabled={asked.length === 0}
          onClick={() => setCopying(true)}
        />
        {narrow ? (
          <IconButton
            icon={SlidersHorizontal}
            label={t.parameters.title}
            onClick={() => onPanel("parameters")}
          />
        ) : (
          <Button
            size="sm"
            look="quiet"
            icon={SlidersHorizontal}
            aria-pressed={panel === "parameters"}
            onClick={() => onPanel(panel === "parameters" ? "" : "parameters")}
          >
            {t.parameters.title}
            {set > 0 && <Badge>{set}</Badge>}
          </Button>
        )}
      </div>
      {copying && pane && (
        <CopyDialog
          onClose={() => setCopying(false)}
          session={pane.session}
          turns={pane.turns}
          body={requestOf({ model: pane.model, turns: asked, parameters, constraints: constraints[0] })}
        />
      )}
    </div>
  );
}
