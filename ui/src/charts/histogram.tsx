import { useFormat, useT } from "@/i18n";
import { ChartTable } from "./chart-table";

/** How many fell between two bounds; `to` of the last one may be `null`: no bound. */
export type Bucket = { from: number; to: number | null; count: number };

type HistogramProps = {
  buckets: Bucket[];
  label: string;
  /** Writes a bound: `format.duration`, say. */
  write: (value: number) => string;
  /** Lines at values, with a word each: "p95". */
  marks?: { at: number; label: string }[];
  height?: number;
};

/** Returns where a value stands between the buckets, from 0 to 1; buckets are equally wide. */
export function positionOf(buckets: Bucket[], value: number): number {
  const index = buckets.findIndex((it) => value >= it.from && (it.to === null || value < it.to));
  const bucket = buckets[index];
  if (!bucket) return value < (buckets[0]?.from ?? 0) ? 0 : 1;
  const inside = bucket.to === null ? 0.5 : (value - bucket.from) / (bucket.to - bucket.from);
  return (index + inside) / buckets.length;
}

type Placed = { label: string; place: number };

/** Gives marks that stand close together one name, at the last of them: "p50, p95". */
export function namedMarks(marks: Placed[]): (Placed & { id: string })[] {
  const sorted = marks.toSorted((a, b) => a.place - b.place);
  let waiting: string[] = [];
  return sorted.map(({ label, place }, index) => {
    waiting.push(label);
    const next = sorted[index + 1];
    if (next && next.place - place < 0.15) return { id: label, label: "", place };
    const name = waiting.join(", ");
    waiting = [];
    return { id: label, label: name, place };
  });
}

/** Widest bucket. */
const WIDEST_REM = 9;

/** How values are spread: TTFT, latency. */
export function Histogram({ buckets, label, write, marks = [], height = 140 }: HistogramProps) {
  const t = useT();
  const format = useFormat();
  const top = Math.max(0, ...buckets.map((it) => it.count));
  if (top === 0)
    return (
      <p className="grid place-items-center text-ink-3 text-sm" style={{ height }}>
        {t.chart.none}
      </p>
    );
  const range = ({ from, to }: Bucket) =>
    to === null ? t.chart.from(write(from)) : `${write(from)}–${write(to)}`;
  const named = namedMarks(marks.map((it) => ({ ...it, place: positionOf(buckets, it.at) })));
  const every = Math.ceil(buckets.length / 6);
  const end = buckets.at(-1)?.to;
  // The last bound has its place at the right end.
  const isNamed = (index: number) => index % every === 0 && (end == null || buckets.length - index >= every);
  return (
    // A few buckets are bars of a usual width, not blocks.
    <figure aria-label={label} style={{ maxWidth: `${buckets.length * WIDEST_REM}rem` }}>
      <div aria-hidden className="relative pt-4">
        <div className="flex items-end gap-px border-line border-b" style={{ height }}>
          {buckets.map((it) => (
            <div
              key={it.from}
              title={`${range(it)}: ${format.integer(it.count)}`}
              className="flex h-full flex-1 items-end hover:bg-hover"
            >
              <div
                className="w-full rounded-t-sm bg-series-1"
                style={{ height: `${(it.count / top) * 100}%`, minHeight: it.count > 0 ? 2 : 0 }}
              />
            </div>
          ))}
        </div>
        {named.map((mark) => (
          <div
            key={mark.id}
            className="pointer-events-none absolute top-0 bottom-0 border-ink-2 border-l border-dashed"
            style={{ left: `${mark.place * 100}%` }}
          >
            {mark.label && (
              <span
                className={`-mt-0.5 absolute whitespace-nowrap bg-panel px-0.5 text-ink-2 text-xs leading-4 ${mark.place > 0.8 ? "right-1" : "left-1"}`}
              >
                {mark.label}
              </span>
            )}
          </div>
        ))}
      </div>
      <div aria-hidden className="relative flex text-ink-3 text-xs">
        {buckets.map((it, index) => (
          <span key={it.from} className="w-0 flex-1 overflow-visible whitespace-nowrap">
            {isNamed(index) ? write(it.from) : ""}
          </span>
        ))}
        {end != null && <span className="absolute top-0 right-0 whitespace-nowrap">{write(end)}</span>}
      </div>
      <ChartTable
        label={label}
        head={[label, t.chart.count]}
        rows={buckets.map((it) => [range(it), format.integer(it.count)])}
      />
    </figure>
  );
}
