import { type RefObject, useEffect, useState } from "react";
import type uPlot from "uplot";
import type { Format } from "@/i18n/format";
import type { Mark, Pane } from "./time-series";

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
  pane.stacked ? `${color}70` : pane.area ? `${color}22` : undefined;

type Latest = {
  /** The first pane of a chart names its marks; the others have their lines only. */
  first: boolean;
  pane: Pane;
  marks?: Mark[];
  onZoom?: (from: number, to: number) => void;
  onCursor: (at: number | null) => void;
};
type Given = { latest: RefObject<Latest>; colors: Colors; format: Format; sync: string; width: number };

/** Returns where each series is drawn: its values, or in a stack their sums with those of the series below it. */
export function drawnValues(pane: Pane, only: string | null): (number | null)[][] {
  const values = pane.series.map((it) => it.values);
  if (!pane.stacked || only !== null) return values;
  let below: (number | null)[] = [];
  return values.map((own) => {
    below = own.map((it, index) => (it ?? 0) + (below[index] ?? 0));
    return below;
  });
}

/** How many names of marks stand below each other where they would cover each other. */
const ROWS = 4;

/** Where the names in each row end that are drawn so far. */
type Taken = number[];

/** Returns the row in which a name has room, and takes it; `undefined` if there is none. */
export function rowFor(taken: Taken, from: number, width: number): number | undefined {
  for (let row = 0; row < ROWS; row += 1) {
    if ((taken[row] ?? -Infinity) > from) continue;
    taken[row] = from + width;
    return row;
  }
}

/** Draws a line at a position, with a word beside it. */
function line(
  u: uPlot,
  vertical: boolean,
  at: number,
  color: string,
  label: string,
  taken: Taken = [],
): void {
  const { ctx, bbox } = u;
  const pixel = Math.round(u.valToPos(at, vertical ? "x" : "y", true));
  const [low, high] = vertical ? [bbox.left, bbox.left + bbox.width] : [bbox.top, bbox.top + bbox.height];
  if (pixel < low || pixel > high) return;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(vertical ? pixel : bbox.left, vertical ? bbox.top : pixel);
  ctx.lineTo(vertical ? pixel : bbox.left + bbox.width, vertical ? bbox.top + bbox.height : pixel);
  ctx.stroke();
  ctx.font = `${11 * devicePixelRatio}px "Inter Variable", sans-serif`;
  ctx.textBaseline = "bottom";
  if (vertical) {
    const width = ctx.measureText(label).width + 8 * devicePixelRatio;
    // A name that would leave the chart stands left of its line.
    const left = pixel + width > high;
    const row = rowFor(taken, left ? pixel - width : pixel, width);
    ctx.textAlign = left ? "right" : "left";
    if (row !== undefined)
      ctx.fillText(
        label,
        pixel + (left ? -3 : 3) * devicePixelRatio,
        bbox.top + (row + 1) * 13 * devicePixelRatio,
      );
  } else {
    ctx.textAlign = "right";
    ctx.fillText(label, bbox.left + bbox.width, pixel - 2 * devicePixelRatio);
  }
  ctx.restore();
}

const DAY = 86_400;
/** Steps between the times on an axis, in seconds: those that a clock and a calendar have. */
const STEPS = [
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200],
  ...[1, 2, 7, 14, 30].map((it) => it * DAY),
];

/** The options of one pane. What changes without a new plot is read from `latest` each time. */
export function optionsOf({ latest, colors, format, sync, width }: Given): uPlot.Options {
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
      points: { size: 6 },
    },
    scales: {
      x: { time: true },
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
        return { stroke, width: 1.5, points: { show: false }, fill: fillOf(pane, stroke) };
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
          for (const it of latest.current.pane.thresholds ?? [])
            line(u, false, it.at, colors[`${it.tone}-solid`], it.label);
          const taken: Taken = [];
          for (const it of latest.current.marks ?? []) {
            const color = it.tone ? colors[`${it.tone}-solid`] : colors["text-3"];
            line(u, true, it.at / 1000, color, latest.current.first ? it.label : "", taken);
          }
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
