import { useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Item } from "@/api/types";
import { modelKeys } from "./query-keys";

type Metrics = Item<"listModelMetrics">;
/** What all engines said of themselves at one time. */
export type MetricSample = { at: number; engines: Metrics[] };

const KEY = [...modelKeys.all, "metric-samples"] as const;
/** Ten minutes, five seconds apart. */
const KEPT = 120;

/** What the engines said of themselves since the page was opened; the newest sample is the last. */
export function useMetricSamples(enabled = true) {
  const client = useQueryClient();
  return useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }): Promise<MetricSample[]> => {
      const engines = await call("listModelMetrics", { query: { limit: 1000 }, signal });
      const before = client.getQueryData<MetricSample[]>(KEY) ?? [];
      return [...before.slice(1 - KEPT), { at: Date.now(), engines }];
    },
    refetchInterval: 5000,
    gcTime: 600_000,
    enabled,
  });
}

/** Returns the entry of one model in a sample. */
export function ofModel(sample: MetricSample | undefined, id: number): Metrics | undefined {
  return sample?.engines.find((it) => it.model_id === id);
}

/** Returns the tokens per second that a model generated between two samples; `null` if its engine counts from zero again. */
export function rateBetween(
  before: MetricSample | undefined,
  now: MetricSample | undefined,
  id: number,
): number | null {
  const [first, last] = [
    ofModel(before, id)?.generation_tokens_total,
    ofModel(now, id)?.generation_tokens_total,
  ];
  if (!before || !now || first == null || last == null || last < first || now.at <= before.at) return null;
  return (last - first) / ((now.at - before.at) / 1000);
}
