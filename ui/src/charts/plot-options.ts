import { type RefObject, useEffect, useState } from "react";
import type uPlot from "uplot";
import type { Format } from "@/i18n/format";
import { drawMarks, type Line } from "./marks";
import type { Mark, Pane, Span } from "./time-series";

const NAMES = [
  "text-2",
  "text-3",
  "line",
  "series-1",
  "series-2",
  "series-3",
  "series-4",
  "series-5",
  "series-6",
  "ok-solid",
  "warn-solid",
  "bad-solid",
  "busy-solid",
  "panel",
  "ok",
  "warn",
  "bad",
  "busy",
] as const;
type Colors = Record<(typeof NAMES)[number], string>;

function readColors(): Colors {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((it) => [it, style.getPropertyValue(`--${it}`).trim()])) as Colors;
}

/** The colours of the present theme: a canvas knows no CSS variables. */
export function useColors(): Colors {
  const [colors, set] = useState(readColors);
  useEffect(() => {
    const watch = new MutationObserver(() => set(readColors()));
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => watch.disconnect();
  }, []);
  return colors;
}

/** Returns the colour of a series: its own, or the next one. */
export function seriesColor(pane: Pane, index: number): (typeof NAMES)[number] {
  return NAMES[3 + (((pane.series[index]?.color ?? index + 1) - 1) % 6)] ?? "series-1";
}

const fillOf = (pane: Pane, color: string) =>
  pane.bars ? color : pane.stacked ? `${color}70` : pane.area ? `${color}22` : undefined;

/** Returns how long a step is for which one bar stands, in milliseconds. One step alone is as long as what is left of the range. */
function stepOf(times: number[], span: Span | undefined): number {
  const [first = 0] = times;
  if (times.length < 2) return Math.max(0, (span?.to ?? first) - first);
  return Math.min(...times.slice(1).map((it, index) => it - (times[index] ?? it)));
}

/** Returns the places of values on the time axis, in seconds: a bar stands in the middle of the step that it counts. */
export function drawnTimes(pane: Pane, times: number[], span: Span | undefined): number[] {
  const middle = pane.bars ? stepOf(times, span) / 2 : 0;
  return times.map((it) => (it + middle) / 1000);
}

/** Returns the ends of the time axis in seconds: those of the range that was chosen, however much of it has values. Bars are whole. */
export function drawnSpan(pane: Pane, times: number[], span: Span | undefined): [number, number] {
  const first = times[0] ?? 0;
  const end = (times.at(-1) ?? 0) + (pane.bars ? stepOf(times, span) : 0);
  if (!span) return [first / 1000, end / 1000];
  if (!pane.bars) return [span.from / 1000, span.to / 1000];
  return [Math.min(span.from, first) / 1000, Math.max(span.to, end) / 1000];
}

type Latest = {
  /** The first pane of a chart names its marks; the others have their lines only. */
  first: boolean;
  pane: Pane;
  times: number[];
  span?: Span;
  marks?: Mark[];
  onZoom?: (from: number, to: number) => void;
  onCursor: (at: number | null) => void;
};
type Given = {
  latest: RefObject<Latest>;
  colors: Colors;
  format: Format;
  sync: string;
  width: number;
  /** What draws bars. */
  bars: uPlot.Series.PathBuilder | undefined;
};

/** Returns where each series is drawn: its values, or in a stack their sums with those of the series below it. */
export function drawnValues(pane: Pane, only: string | null): (number | null)[][] {
  const values = pane.series.map((it) => it.values);
  if (!pane.stacked) return values;
  // Those that are not shown are no ground to stand on.
  if (only !== null) return pane.series.map((it) => (it.id === only ? it.values : it.values.map(() => 0)));
  let below: (number | null)[] = [];
  return values.map((own) => {
    below = own.map((it, index) => (it ?? 0) + (below[index] ?? 0));
    return below;
  });
}

const DAY = 86_400;
/** Steps between the times on an axis, in seconds: those that a clock and a calendar have. */
const STEPS = [
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200],
  ...[1, 2, 7, 14, 30].map((it) => it * DAY),
];

/** The options of one pane. What changes without a new plot is read from `latest` each time. */
export function optionsOf({ latest, colors, format, sync, width, bars }: Given): uPlot.Options {
  const { pane } = latest.current;
  const font = '11px "Inter Variable", sans-serif';
  const axis = { stroke: colors["text-3"], font, ticks: { show: false } };
  const times = (u: uPlot, splits: number[]) => {
    const long = (u.scales.x?.max ?? 0) - (u.scales.x?.min ?? 0) > 2 * 86_400;
    const seconds = (u.scales.x?.max ?? 0) - (u.scales.x?.min ?? 0) < 300;
    return splits.map((it) =>
      long
        ? format.date(it * 1000).replace(/,? ?\d{4}$/, "")
        : format.time(it * 1000).slice(0, seconds ? 8 : 5),
    );
  };
  return {
    width,
    height: pane.height ?? 160,
    legend: { show: false },
    padding: [8, 28, 0, 0],
    cursor: {
      sync: { key: sync },
      drag: { x: true, y: false, setScale: false },
      points: pane.bars ? { show: false } : { size: 6 },
    },
    scales: {
      x: {
        time: true,
        range: (_, low, high) => {
          const { pane: now, times: given, span } = latest.current;
          const [from, to] = drawnSpan(now, given, span);
          return from < to ? [from, to] : [low, high];
        },
      },
      y: { range: (_, __, high) => [0, pane.max ?? (high > 0 ? high * 1.08 : 1)] },
    },
    axes: [
      { ...axis, grid: { show: false }, values: times, size: 24, space: 72, incrs: STEPS },
      {
        ...axis,
        grid: { stroke: colors.line, width: 1 },
        size: 64,
        splits: (u, _, low, high) => {
          const raw = (high - low) / Math.max(2, Math.floor(u.height / 48));
          const { whole, binary } = latest.current.pane;
          const step = binary ? binaryStep(raw) : whole ? Math.max(1, niceStep(raw)) : niceStep(raw);
          return Array.from({ length: Math.floor(high / step) + 1 }, (_, index) => index * step);
        },
        values: (_, splits) => splits.map((it) => latest.current.pane.write(it)),
      },
    ],
    series: [
      {},
      ...pane.series.map((_, index) => {
        const stroke = colors[seriesColor(pane, index)];
        const look = { stroke, points: { show: false }, fill: fillOf(pane, stroke) };
        return pane.bars ? { ...look, width: 0, paths: bars } : { ...look, width: 1.5 };
      }),
    ],
    bands: pane.stacked
      ? pane.series.slice(1).map((_, index) => ({ series: [index + 2, index + 1] as [number, number] }))
      : [],
    hooks: {
      setCursor: [(u) => latest.current.onCursor(u.cursor.idx ?? null)],
      setSelect: [
        (u) => {
          const { left, width: wide } = u.select;
          if (wide < 4) return;
          const [from, to] = [u.posToVal(left, "x") * 1000, u.posToVal(left + wide, "x") * 1000];
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          latest.current.onZoom?.(Math.round(from), Math.round(to));
        },
      ],
      draw: [
        (u) => {
          const { pane: now, marks = [], first } = latest.current;
          const across = (now.thresholds ?? []).map(
            ({ at, label, tone }): Line => ({
              vertical: false,
              at,
              label,
              line: colors[`${tone}-solid`],
              text: colors[tone],
            }),
          );
          const down = marks.map(
            ({ at, label, tone }): Line => ({
              vertical: true,
              at: at / 1000,
              label: first ? label : "",
              line: tone ? colors[`${tone}-solid`] : colors["text-3"],
              text: tone ? colors[tone] : colors["text-2"],
            }),
          );
          drawMarks(u, [...across, ...down], colors.panel);
        },
      ],
    },
  };
}

/** Returns the power of two that is at least `raw`: sizes in MiB then have whole GiB on their scale. */
export function binaryStep(raw: number): number {
  return raw > 0 ? 2 ** Math.ceil(Math.log2(raw)) : 1;
}

/** Returns 1, 2 or 5 times a power of ten that is at least `raw`. */
export function niceStep(raw: number): number {
  if (!(raw > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 5, 10].find((it) => it * power >= raw) ?? 10;
  return factor * power;
}
