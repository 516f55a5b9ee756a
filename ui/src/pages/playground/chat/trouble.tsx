import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { cn } from "@/kit/cn";
import { ErrorNote } from "@/kit/error-state";
import { useT } from "../t";
import type { Trouble } from "./use-conversation";

/** Below the last message: an answer that is looked for, failed, could not be stored, or never came. */
export function TroubleView({ trouble }: { trouble: Trouble }) {
  const t = useT();
  const c = useCommonT();
  const { kind } = trouble;
  if (kind === "lost")
    return (
      <p role="status" className="rounded-md border border-warn-solid bg-warn-soft px-3 py-2 text-sm">
        {t.pane.lost}
      </p>
    );
  if (kind === "unanswered")
    return (
      <div className="flex flex-col items-start gap-2">
        <p className="text-ink-2 text-sm">{t.pane.unanswered}</p>
        <Button size="sm" onClick={trouble.ask}>
          {t.pane.answerNow}
        </Button>
      </div>
    );
  if (kind === "failed")
    return (
      <div className="flex flex-col items-start gap-2">
        <ErrorNote error={trouble.error} />
        <div className="flex flex-wrap gap-2">
          <Button size="sm" look="primary" onClick={trouble.ask}>
            {c.do.retry}
          </Button>
          {trouble.withoutPictures && (
            <Button size="sm" onClick={trouble.withoutPictures}>
              {t.pane.withoutPictures}
            </Button>
          )}
        </div>
      </div>
    );
  const { error } = trouble;
  return (
    <div
      role="status"
      className={cn(
        "flex flex-col items-start gap-2 text-sm",
        // An error has a box of its own.
        error === undefined && "rounded-md border border-warn-solid bg-warn-soft px-3 py-2",
      )}
    >
      <p>{kind === "interrupted" ? t.pane.interrupted : t.pane.unsaved}</p>
      {error !== undefined && <ErrorNote error={error} />}
      <div className="flex flex-wrap gap-2">
        <Button size="sm" look="primary" onClick={trouble.save}>
          {t.pane.saveAgain}
        </Button>
        <Button size="sm" onClick={trouble.ask}>
          {t.turn.regenerate}
        </Button>
      </div>
    </div>
  );
}
