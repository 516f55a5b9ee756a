import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Answer, Model, ModelState } from "@/api/types";
import { systemKeys } from "./query-keys";

/** The course of the host over the last minutes; there is a sample every 10 s. */
export function useTrends(minutes: number) {
  return useQuery({
    queryKey: [...systemKeys.trends, minutes],
    queryFn: ({ signal }) => call("getHostTrends", { query: { minutes }, signal }),
    refetchInterval: 10_000,
  });
}

/** Models whose events are drawn: those that changed last. */
const MODELS = 20;

export type ModelMark = { at: number; model: string; to: ModelState };

/** Starts, stops and failures of models, from their timelines, oldest first. */
export function useModelMarks(models: Model[]): ModelMark[] {
  const latest = models.toSorted((a, b) => b.updated_at.localeCompare(a.updated_at)).slice(0, MODELS);
  return useQueries({
    queries: latest.map((model) => ({
      // A new state is a new event.
      queryKey: [...systemKeys.marks, model.id, model.state],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        call("listModelEvents", { path: { id: model.id }, query: { limit: 100 }, signal }),
      staleTime: Infinity,
      select: (events: Answer<"listModelEvents">): ModelMark[] =>
        events
          .filter((it) => it.to === "running" || it.to === "stopped" || it.to === "failed")
          .map((it) => ({ at: Date.parse(it.at), model: model.served_name, to: it.to })),
    })),
    combine: (all) => all.flatMap((it) => it.data ?? []).toSorted((a, b) => a.at - b.at),
  });
}

export type GpuSample = { at: number; gpus: Answer<"getHostSummary">["gpus"] };
/** How many samples of temperature and power are kept, five seconds apart: an hour. */
const SAMPLES = 720;

/** Temperature and power since the page was opened: the gateway keeps no history of them. */
export function useGpuCourse(enabled: boolean) {
  const client = useQueryClient();
  return useQuery({
    queryKey: systemKeys.gpuCourse,
    queryFn: async ({ signal }): Promise<GpuSample[]> => {
      const now = await call("getHostSummary", { signal });
      const before = client.getQueryData<GpuSample[]>(systemKeys.gpuCourse) ?? [];
      return [...before.slice(1 - SAMPLES), { at: Date.parse(now.ts), gpus: now.gpus }];
    },
    refetchInterval: 5000,
    enabled,
  });
}
