import { useFormat, useT } from "@/i18n";
import { cn } from "@/kit/cn";
import type { Pane } from "./time-series";

// As whole words, so that Tailwind finds them.
const DOTS = ["bg-series-1", "bg-series-2", "bg-series-3", "bg-series-4", "bg-series-5", "bg-series-6"];

type LegendProps = {
  pane: Pane;
  at: number | null;
  time: number | undefined;
  only: string | null;
  onOnly: (id: string | null) => void;
};

/** The title of a pane with its series, and their values under the crosshair (the newest ones without it). */
export function Legend({ pane, at, time, only, onOnly }: LegendProps) {
  const t = useT();
  const format = useFormat();
  return (
    <div className="flex min-h-7 flex-wrap items-center gap-x-3 gap-y-1 text-xs">
      <span className="font-medium text-sm">{pane.title}</span>
      {pane.series.map((series, index) => {
        const value = series.values[at ?? series.values.length - 1];
        const alone = only === series.id;
        return (
          <button
            key={series.id}
            type="button"
            aria-pressed={alone}
            title={alone ? t.chart.allSeries : t.chart.isolate(series.label)}
            onClick={() => onOnly(alone ? null : series.id)}
            className={cn(
              "inline-flex h-6 items-center gap-1.5 rounded-sm px-1 hover:bg-hover",
              only && !alone && "text-ink-3",
            )}
          >
            <span
              aria-hidden
              className={cn(pane.bars ? "size-2" : "h-0.5 w-3", DOTS[((series.color ?? index + 1) - 1) % 6])}
            />
            {series.label}
            <span className="text-ink-2">
              {value === null || value === undefined ? "–" : pane.write(value)}
            </span>
          </button>
        );
      })}
      {time !== undefined && <span className="ml-auto text-ink-3">{format.dateTime(time)}</span>}
    </div>
  );
}
