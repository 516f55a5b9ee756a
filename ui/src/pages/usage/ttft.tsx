import { useMemo } from "react";
import type { UsageRow } from "@/api/types";
import { type Bucket, Histogram } from "@/charts/histogram";
import { useTtft } from "@/data/usage-explore";
import { useFormat } from "@/i18n";
import { ErrorNote } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import type { Usage } from "./filter";
import { useT } from "./t";

/** The bounds, in milliseconds: each is some 1.6 times the one before. */
const BOUNDS = [0, 25, 40, 63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000, 6300, 10_000, 16_000, 25_000];

/** Counts times to the first token by size. */
export function bucketsOf(values: number[]): Bucket[] {
  const buckets = BOUNDS.map((from, index): Bucket => ({ from, to: BOUNDS[index + 1] ?? null, count: 0 }));
  for (const value of values) {
    const bucket = buckets.findLast((it) => value >= it.from);
    if (bucket) bucket.count += 1;
  }
  const first = buckets.findIndex((it) => it.count > 0);
  const last = buckets.findLastIndex((it) => it.count > 0);
  return first < 0 ? [] : buckets.slice(Math.max(0, first - 1), last + 2);
}

type TtftSpreadProps = {
  usage: Usage;
  /** Where the histogram of somebody's own requests comes from: the gateway has that of whole organisations only. */
  rows: UsageRow[] | undefined;
  /** Why there are no rows. */
  rowsError: unknown;
};

/** How the times to the first token are spread: in the whole range, or in one's own rows that are loaded. */
export function TtftSpread({ usage, rows, rowsError }: TtftSpreadProps) {
  const t = useT();
  const format = useFormat();
  const { own } = usage;
  const all = useTtft(usage.now, !own);
  const mine = useMemo(
    () => rows && bucketsOf(rows.flatMap((it) => (it.ttft_ms === null ? [] : [it.ttft_ms]))),
    [rows],
  );
  const spans = all.data?.histogram.map((it) => ({ from: it.from_ms, to: it.to_ms, count: it.requests }));
  const buckets = own ? mine : spans;
  const error = own ? rowsError : all.error;
  const count = format.integer((buckets ?? []).reduce((sum, it) => sum + it.count, 0));
  const marks = [
    { at: all.data?.p50_ms, label: "p50" },
    { at: all.data?.p95_ms, label: "p95" },
  ].flatMap(({ at, label }) => (at == null ? [] : [{ at, label }]));
  return (
    <Panel
      title={t.histogram.title}
      note={!!buckets?.length && (own ? t.histogram.newest(count) : t.histogram.all(count))}
    >
      {!buckets && error ? (
        <ErrorNote error={error} />
      ) : !buckets ? (
        <Skeleton className="h-52" />
      ) : buckets.length === 0 ? (
        <p className="grid h-40 place-items-center text-ink-3 text-sm">{t.histogram.none}</p>
      ) : (
        <Histogram
          buckets={buckets}
          label={t.histogram.label}
          write={format.duration}
          marks={marks}
          height={180}
        />
      )}
    </Panel>
  );
}
