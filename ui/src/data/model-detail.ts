import { queryOptions, useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Body, Model, ModelState } from "@/api/types";
import { modelKeys } from "./query-keys";

const modelEventsQuery = (id: number, state: ModelState, limit: number) =>
  queryOptions({
    queryKey: [...modelKeys.all, "events", id, limit, state],
    queryFn: ({ signal }) => call("listModelEvents", { path: { id }, query: { limit }, signal }),
    staleTime: 60_000,
  });

/** The newest changes of a model's state. They are asked for again whenever the state is another one. */
export const useModelEvents = (id: number, state: ModelState, limit = 50) =>
  useQuery(modelEventsQuery(id, state, limit));

/** These models, each with the time from which it has the state that it has, once that is known. */
export function useStateSince(models: Model[]): { model: Model; at: string | undefined }[] {
  const events = useQueries({
    // A model that fails again has the same state as before: its time is asked for whenever it comes back.
    queries: models.map((it) => ({ ...modelEventsQuery(it.id, it.state, 1), staleTime: 0 })),
  });
  return models.map((model, place) => ({ model, at: events[place]?.data?.[0]?.at }));
}

/** How far a start is: since when it is under way, and after how long it fails. */
export function useReadiness(id: number, state: ModelState) {
  const busy = state === "starting" || state === "loading";
  return useQuery({
    queryKey: [...modelKeys.all, "readiness", id, state],
    queryFn: ({ signal }) => call("getModelReadiness", { path: { id }, signal }),
    refetchInterval: busy ? 5000 : false,
  });
}

/** The last lines of a log, asked for every two seconds; a browser has too few connections to follow every log of a list. */
export function useLogTail(id: number, lines: number, enabled = true) {
  return useQuery({
    queryKey: [...modelKeys.all, "tail", id, lines],
    queryFn: ({ signal }) => call("getModelLogs", { path: { id }, query: { tail: lines }, signal }),
    refetchInterval: 2000,
    enabled,
  });
}

/** How many of the last lines are diagnosed: the gateway looks at no more than it is asked for. */
const DIAGNOSED = 1000;

/** Why the model does not run, from the log as it is now. */
export function useDiagnosis(id: number, state: ModelState, enabled = true) {
  return useQuery({
    queryKey: [...modelKeys.all, "diagnosis", id, state],
    queryFn: ({ signal }) =>
      call("getModelLogs", { path: { id }, query: { tail: DIAGNOSED, diagnose: "true" }, signal }),
    enabled,
  });
}

/** The log of the run before the current one, as far as the gateway keeps it; `run` says which one is current. */
export function usePreviousLog(id: number, run: string | null, tail: number) {
  return useQuery({
    queryKey: [...modelKeys.all, "previous-log", id, run, tail],
    queryFn: ({ signal }) =>
      call("getModelLogs", { path: { id }, query: { tail, previous: "true" }, signal }),
  });
}

function useRefresh() {
  const client = useQueryClient();
  return (model?: Model) => {
    if (model) client.setQueryData(modelKeys.one(model.id), model);
    return client.invalidateQueries({ queryKey: modelKeys.all });
  };
}

/** Stops a model if it is active, and starts it with its settings as they are now. */
export function useApplyModel() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: ({ id, rollback, force }: { id: number; rollback?: boolean; force?: boolean }) =>
      call("applyModel", {
        path: { id },
        query: { rollback: rollback ? "true" : undefined, force: force ? "true" : undefined },
      }),
    onSettled: refresh,
  });
}

/** Changes settings of a model, then starts it: what a fix of a diagnosis does. */
export function useFixModel() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: async ({ id, set }: { id: number; set: Record<string, unknown> }) => {
      await call("changeModel", { path: { id }, body: set as Body<"changeModel"> });
      return call("startModel", { path: { id } });
    },
    onSettled: refresh,
  });
}

/** Sends one small request straight to the engine. */
export function useTestModel() {
  return useMutation({ mutationFn: (id: number) => call("testModel", { path: { id } }) });
}
