import type { ReactNode } from "react";
import { cn } from "@/kit/cn";

export type Segment = {
  id: string;
  label: ReactNode;
  /** In the bar's unit. */
  value: number;
  /** The value as text, as in "3.1 GiB". */
  text: string;
  /** `free` is empty, `other` is grey, a number is one of the six colours of series. */
  color: 1 | 2 | 3 | 4 | 5 | 6 | "free" | "other";
};

const COLOURS: Record<Segment["color"], string> = {
  1: "bg-series-1",
  2: "bg-series-2",
  3: "bg-series-3",
  4: "bg-series-4",
  5: "bg-series-5",
  6: "bg-series-6",
  free: "bg-idle-soft",
  other: "bg-idle-solid",
};

type StackedBarProps = {
  segments: Segment[];
  label: string;
  /** The whole, where it is more than the sum; if the sum is more, a line shows where the whole ends. */
  total?: number;
  legend?: boolean;
  height?: number;
};

/** Who holds how much of something: memory of a GPU, by model. Segments that are kept by `id` move smoothly. */
export function StackedBar({ segments, label, total, legend = true, height = 12 }: StackedBarProps) {
  const sum = segments.reduce((all, it) => all + it.value, 0);
  const whole = Math.max(total ?? 0, sum, Number.MIN_VALUE);
  const over = total !== undefined && sum > total;
  const shown = segments.filter((it) => it.value > 0);
  return (
    <div role="group" aria-label={label} className="min-w-0">
      <div
        aria-hidden
        className="relative flex w-full overflow-hidden rounded-sm bg-idle-soft"
        style={{ height }}
      >
        {segments.map((it) => (
          <div
            key={it.id}
            title={it.text}
            className={cn(
              "border-panel border-r transition-[width] duration-150 last:border-r-0",
              COLOURS[it.color],
            )}
            style={{ width: `${(it.value / whole) * 100}%`, borderRightWidth: it.value > 0 ? undefined : 0 }}
          />
        ))}
        {over && (
          <div
            className="absolute inset-y-0 w-0.5 bg-bad-solid"
            style={{ left: `${((total ?? 0) / whole) * 100}%` }}
          />
        )}
      </div>
      <ul className={cn("mt-2 flex flex-wrap gap-x-4 gap-y-1 text-sm", !legend && "sr-only")}>
        {shown.map((it) => (
          <li key={it.id} className="flex min-w-0 items-center gap-1.5">
            <span
              aria-hidden
              className={cn("size-2.5 shrink-0 rounded-sm border border-line", COLOURS[it.color])}
            />
            <span className="min-w-0 truncate">{it.label}</span>
            <span className="whitespace-nowrap text-ink-2">{it.text}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
