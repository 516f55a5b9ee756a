import { CirclePlay, Save } from "lucide-react";
import { useState } from "react";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { stopsAtUnreadable } from "@/kit/unreadable";
import { isRefused, reasonsAgainst, StartAnyway } from "./start-anyway";
import { useT } from "./t";
import type { useDraft } from "./use-draft";
import type { useSave } from "./use-save";

type SaveBarProps = {
  edit: ReturnType<typeof useDraft>;
  save: ReturnType<typeof useSave>;
  rest: unknown;
  /** Nobody has looked what the model consists of. */
  unread: boolean;
};

/**
 * The way out of the form. It never blocks: where a check says no, it first says what a start would do. What the gateway would not
 * even save is sent as it is, and the refusal lands on its field.
 */
export function SaveBar({ edit, save, rest, unread }: SaveBarProps) {
  const t = useT();
  const [asking, setAsking] = useState(false);
  const { data, isFetching } = edit.preview;
  const reasons = data ? reasonsAgainst(data) : [];
  const against = reasons.length > 0;
  const refused = data !== undefined && isRefused(data);
  const found = refused ? t.refused : against ? t.errors(reasons.length) : unread ? t.unread : t.ready;
  const send = (start: boolean) => {
    if (stopsAtUnreadable()) return;
    if (start && against && !refused) setAsking(true);
    else save.run(edit.body, start);
  };
  return (
    <div className="sticky bottom-0 z-10 -mx-4 -mb-4 border-line border-t bg-panel px-4 py-3 md:-mx-6 md:-mb-6 md:px-6">
      {rest !== undefined && (
        <div className="mb-3">
          <ErrorNote error={rest} />
        </div>
      )}
      <div className="flex flex-wrap items-center justify-end gap-2">
        <p aria-live="polite" className="flex grow basis-full items-center gap-2 text-sm sm:basis-auto">
          <StateShape
            tone={!data || isFetching ? "busy" : against ? "bad" : unread ? "warn" : "ok"}
            className={
              !data || isFetching ? "text-busy" : against ? "text-bad" : unread ? "text-warn" : "text-ok"
            }
          />
          {!data || isFetching ? t.checking : found}
        </p>
        <Button icon={Save} disabled={save.busy} onClick={() => send(false)}>
          {t.save}
        </Button>
        <Button look="primary" icon={CirclePlay} busy={save.busy} onClick={() => send(true)}>
          {against && !refused ? t.anyway : t.saveStart}
        </Button>
      </div>
      {asking && data && (
        <StartAnyway
          preview={data}
          settings={edit.draft.settings}
          onClose={() => setAsking(false)}
          onStart={() => save.run(edit.body, true)}
        />
      )}
    </div>
  );
}
