import { CirclePlay, Save } from "lucide-react";
import { useState } from "react";
import { useT as useCommonT } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { stopsAtUnreadable } from "@/kit/unreadable";
import { Checks } from "@/parts/models/checks";
import { useT } from "./t";
import type { useDraft } from "./use-draft";
import type { useSave } from "./use-save";

type SaveBarProps = { edit: ReturnType<typeof useDraft>; save: ReturnType<typeof useSave>; rest: unknown };

/** The way out of the form. It never blocks: where a check says no, it first says what a start would do. */
export function SaveBar({ edit, save, rest }: SaveBarProps) {
  const t = useT();
  const c = useCommonT();
  const [asking, setAsking] = useState(false);
  const { data, isFetching } = edit.preview;
  const errors = data?.warnings.filter((it) => it.severity === "error") ?? [];
  const tooLarge = data?.vram_estimate?.fits === false;
  const against = errors.length > 0 || tooLarge;
  const send = (start: boolean) => {
    if (stopsAtUnreadable()) return;
    if (start && against) setAsking(true);
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
            tone={!data || isFetching ? "busy" : against ? "bad" : "ok"}
            className={!data || isFetching ? "text-busy" : against ? "text-bad" : "text-ok"}
          />
          {!data || isFetching ? t.checking : against ? t.errors(Math.max(1, errors.length)) : t.ready}
        </p>
        <Button icon={Save} disabled={save.busy} onClick={() => send(false)}>
          {t.save}
        </Button>
        <Button look="primary" icon={CirclePlay} busy={save.busy} onClick={() => send(true)}>
          {against ? t.anyway : t.saveStart}
        </Button>
      </div>
      <Dialog
        open={asking}
        onClose={() => setAsking(false)}
        title={t.anywayTitle}
        description={t.anywayText}
        size="md"
        footer={
          <>
            <Button onClick={() => setAsking(false)}>{c.do.cancel}</Button>
            <Button
              look="primary"
              onClick={() => {
                setAsking(false);
                save.run(edit.body, true);
              }}
            >
              {t.anyway}
            </Button>
          </>
        }
      >
        {data && <Checks preview={{ ...data, warnings: errors }} />}
        {tooLarge && <p className="max-w-[72ch] text-sm">{t.noMemory}</p>}
        <p className="max-w-[72ch] text-ink-2 text-sm">{t.anywayEnd}</p>
      </Dialog>
    </div>
  );
}
