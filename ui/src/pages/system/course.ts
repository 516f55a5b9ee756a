import type { Answer } from "@/api/types";
import type { GpuSample } from "@/data/trends";

type Trends = Answer<"getHostTrends">;
type Points = Trends["cpu_util_pct"];

/** Series that share their times; a time without a sample is a gap. */
export type Course = { times: number[]; of: (points: Points) => (number | null)[] };

/**
 * Puts the points of all series on common times, in steps of the interval, so that an hour in which the gateway did not run is
 * a gap and not a straight line. Only those from `from` to `to` are kept.
 */
export function courseOf(trends: Trends, from = -Infinity, to = Infinity): Course {
  const gpus = Object.values(trends.gpu).flatMap((it) => [it.util_pct, it.mem_used_mb]);
  const all = [trends.cpu_util_pct, trends.mem_used_mb, trends.disk_used_pct, trends.net_rx_bps, ...gpus];
  const step = trends.interval_sec * 1000;
  const seen = [...new Set(all.flatMap((points) => points.map((it) => Date.parse(it.ts))))]
    .filter((at) => at >= from && at <= to)
    .sort((a, b) => a - b);
  const times: number[] = [];
  for (const at of seen) {
    const before = times.at(-1);
    if (before !== undefined && at - before > step * 2.5) times.push(before + step);
    times.push(at);
  }
  const of = (points: Points) => {
    const values = new Map(points.map((it) => [Date.parse(it.ts), it.value]));
    return times.map((at) => values.get(at) ?? null);
  };
  return { times, of };
}

type GpuNow = GpuSample["gpus"][number];

/** One figure of every GPU over the samples: its index, and a value for each. */
export function gpuCourse(
  samples: GpuSample[],
  of: (gpu: GpuNow) => number | null,
): { index: number; values: (number | null)[] }[] {
  const indexes = [...new Set(samples.flatMap((it) => it.gpus.map((gpu) => gpu.index)))].sort(
    (a, b) => a - b,
  );
  return indexes
    .map((index) => ({
      index,
      values: samples.map(({ gpus }) => {
        const gpu = gpus.find((it) => it.index === index);
        return gpu ? of(gpu) : null;
      }),
    }))
    .filter(({ values }) => values.some((it) => it !== null));
}
