import type { Model } from "@/api/types";
import { useLogTail, useModelEvents, useReadiness } from "@/data/model-detail";
import { usePulls } from "@/data/models";
import { useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Progress } from "@/kit/bars";
import { useNow } from "@/kit/clock";
import { cn } from "@/kit/cn";
import { learnedFrom, linesOf, loadedShare, PHASES, type Phase, phaseOf } from "./phases";
import { useT } from "./t";

/** A start that is under way: its phases, how long it takes against earlier ones, and the last lines of the log. */
export function StartProgress({ model }: { model: Model }) {
  const t = useT();
  const format = useFormat();
  const now = useNow();
  const { id, state } = model;
  const readiness = useReadiness(id, state);
  const { data: events = [] } = useModelEvents(id, state);
  const log = useLogTail(id, 40, state === "loading");
  const pull = usePulls()[id];
  const lines = state === "loading" && log.data && !log.data.earlier ? linesOf(log.data.logs) : [];
  const phase = phaseOf(state, pull !== undefined, lines);
  const learned = learnedFrom(events);
  const at = readiness.data?.elapsed_sec;
  const elapsed = at == null ? null : at * 1000 + Math.max(0, now - readiness.dataUpdatedAt);
  const usual = learned && learned.starting + learned.loading;
  const timeout = readiness.data?.timeout_sec;
  const share = loadedShare(lines);
  // Only an image that is pulled takes time; processes have none.
  const phases: readonly Phase[] = phase === "image" ? PHASES : PHASES.filter((it) => it !== "image");
  const said = [
    elapsed !== null && t.start.elapsed(format.duration(Math.round(elapsed / 1000) * 1000)),
    learned ? t.start.usual(format.duration(usual ?? 0), learned.starts) : t.start.first,
    elapsed !== null &&
      usual !== null &&
      elapsed > usual * 1.2 + 1000 &&
      t.start.longer(format.duration(elapsed - usual)),
    timeout !== undefined && t.start.timeout(format.duration(timeout * 1000)),
  ].filter(Boolean);
  return (
    <section aria-label={t.start.label(model.served_name)} className="flex min-w-0 flex-col gap-3">
      <ol className="flex flex-wrap gap-x-5 gap-y-1 text-sm">
        {phases.map((it) => {
          const place = PHASES.indexOf(it) - PHASES.indexOf(phase);
          return (
            <li
              key={it}
              aria-current={place === 0 ? "step" : undefined}
              className={cn(
                "flex items-center gap-1.5",
                place === 0 ? "font-medium text-busy" : place < 0 ? "text-ok" : "text-ink-3",
              )}
            >
              <StateShape tone={place === 0 ? "busy" : place < 0 ? "ok" : "idle"} />
              {t.start.phases[it]}
              <span className="sr-only">
                {place === 0 ? t.start.current : place < 0 ? t.start.done : t.start.todo}
              </span>
            </li>
          );
        })}
      </ol>
      <div>
        <Progress
          label={t.start.progress}
          thin
          tone="busy"
          value={elapsed !== null && usual ? Math.min(0.97, elapsed / usual) : null}
        />
        <p className="mt-1.5 text-ink-2 text-sm">{said.join(" · ")}</p>
      </div>
      {pull && (
        <Progress
          label={t.start.pull}
          value={pull.known > 0 ? pull.done / pull.known : null}
          text={t.start.of(format.bytes(pull.done), pull.known > 0 ? format.bytes(pull.known) : "–")}
        />
      )}
      {share !== null && phase === "weights" && (
        <Progress label={t.start.weights} value={share} text={format.percent(Math.round(share * 100))} />
      )}
      {state === "loading" && <Tail lines={lines.slice(-6)} />}
    </section>
  );
}

/** The end of a log, cut to the width that there is. It keeps its height while lines come. */
function Tail({ lines }: { lines: string[] }) {
  const t = useT();
  return (
    <div
      role="log"
      aria-live="off"
      aria-label={t.start.log}
      className="h-[7.5rem] overflow-hidden rounded-md border border-line bg-panel px-2.5 py-1.5 font-mono text-ink-2 text-xs leading-[18px]"
    >
      {lines.length === 0 && t.start.noLog}
      {lines.map((it, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other identity
        <div key={index} className="truncate">
          {it || "\u00a0"}
        </div>
      ))}
    </div>
  );
}
