import { useState } from "react";
import { useFormat, useT } from "@/i18n";
import { part } from "@/kit/part";
import { ChartTable } from "./chart-table";

export type Series = { id: string; label: string; values: (number | null)[]; color?: 1 | 2 | 3 | 4 | 5 | 6 };
/** One drawing of a chart; all share the times and the crosshair. */
export type Pane = {
  id: string;
  title: string;
  series: Series[];
  /** Writes a value with its unit. */
  write: (value: number) => string;
  height?: number;
  /** Counts of a step of time each, from a time to the next one: they are bars, and not a line from one to the next. */
  bars?: boolean;
  /** Filled below the lines. */
  area?: boolean;
  /** Each series begins where the one before it ends, so that the upmost line is the sum. */
  stacked?: boolean;
  /** Counts: the scale has whole numbers only. */
  whole?: boolean;
  /** Sizes in MiB: the steps of the scale are powers of two. */
  binary?: boolean;
  /** The end of the scale, as 100 for percent. */
  max?: number;
  /** Lines across, as at a limit. */
  thresholds?: { at: number; label: string; tone: "warn" | "bad" }[];
};
/** Something that happened: a vertical mark in every pane. */
export type Mark = { at: number; label: string; tone?: "ok" | "bad" | "busy" };

/** A range of time, in milliseconds. */
export type Span = { from: number; to: number };

export type TimeSeriesProps = {
  label: string;
  /** Milliseconds, ascending; every series has a value for each. */
  times: number[];
  /** The range that was chosen: the axis shows all of it. Without it the axis goes from the first time to the last. */
  span?: Span;
  panes: Pane[];
  marks?: Mark[];
  /** Called with the range that was dragged over, in milliseconds: put it into the address with `useRange`. */
  onZoom?: (from: number, to: number) => void;
};

const Plots = part(() => import("./plots"));

/** Numbers over time, in one or more panes under each other. A click on a name in the legend shows only that series. */
export function TimeSeries(props: TimeSeriesProps) {
  const { label, times, panes } = props;
  const t = useT();
  const format = useFormat();
  const [only, setOnly] = useState<string | null>(null);
  const height = panes.reduce((sum, it) => sum + (it.height ?? 160) + 32, 0);
  if (times.length === 0)
    return (
      <p className="grid place-items-center text-ink-3 text-sm" style={{ height }}>
        {t.chart.none}
      </p>
    );
  const all = panes.flatMap((pane) => pane.series.map((series) => ({ pane, series })));
  return (
    <figure aria-label={label} className="min-w-0">
      <Plots {...props} only={only} onOnly={setOnly} waiting={<div style={{ height }} />} />
      <ChartTable
        label={label}
        head={[t.chart.time, ...all.map(({ series }) => series.label)]}
        rows={times.map((at, index) => [
          format.dateTime(at),
          ...all.map(({ pane, series }) => {
            const value = series.values[index];
            return value === null || value === undefined ? "" : pane.write(value);
          }),
        ])}
      />
    </figure>
  );
}
