import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callPage, ifMatch } from "@/api/client";
import type { Body, Model, ModelState, RecordChange } from "@/api/types";
import { useLiveOptions } from "@/live/connection";
import type { Pulls } from "@/live/patch";
import { modelKeys } from "./query-keys";

const PAGE = 1000;

async function everyModel(archived: boolean, signal: AbortSignal): Promise<Model[]> {
  const models: Model[] = [];
  for (;;) {
    const query = { limit: PAGE, offset: models.length, archived: archived ? ("true" as const) : undefined };
    const { items, total } = await callPage("listModels", { query, signal });
    models.push(...items);
    if (items.length < PAGE || models.length >= total) return models;
  }
}

/** The query of all models. */
export const modelsQuery = (archived: boolean) =>
  queryOptions({
    queryKey: modelKeys.list(archived),
    queryFn: ({ signal }) => everyModel(archived, signal),
  });

/** All models, kept true by events. */
export function useModels({ archived = false, enabled = true } = {}) {
  const live = useLiveOptions();
  return useQuery({ ...modelsQuery(archived), enabled, ...live });
}

/** One model, kept true by events. It begins with what the list knows. */
export function useModel(id: number) {
  const live = useLiveOptions();
  const client = useQueryClient();
  return useQuery({
    queryKey: modelKeys.one(id),
    queryFn: ({ signal }) => call("getModel", { path: { id }, signal }),
    placeholderData: () => client.getQueryData<Model[]>(modelKeys.list(false))?.find((it) => it.id === id),
    ...live,
  });
}

/** The pulls of images that run now, by the id of the model: events bring them. */
export function usePulls(): Pulls {
  const none: Pulls = {};
  return useQuery({ queryKey: modelKeys.pulls, queryFn: () => none, staleTime: Infinity }).data ?? none;
}

/** What each running engine says of itself: requests, KV cache, TTFT. */
export function useModelMetrics(enabled = true) {
  return useQuery({
    queryKey: modelKeys.metrics,
    queryFn: ({ signal }) => call("listModelMetrics", { query: { limit: PAGE }, signal }),
    refetchInterval: 5000,
    enabled,
  });
}

/** Shows what the answer will be, until it is there. */
function useCommand<V extends { id: number }>(state: ModelState, send: (given: V) => Promise<Model>) {
  const client = useQueryClient();
  const put = (model: Model) => {
    client.setQueriesData<Model[]>({ queryKey: modelKeys.lists }, (list) =>
      list?.map((it) => (it.id === model.id ? model : it)),
    );
    client.setQueryData(modelKeys.one(model.id), model);
  };
  return useMutation({
    mutationFn: send,
    onMutate: async ({ id }) => {
      await client.cancelQueries({ queryKey: modelKeys.all });
      const known =
        client.getQueryData<Model>(modelKeys.one(id)) ??
        client.getQueryData<Model[]>(modelKeys.list(false))?.find((it) => it.id === id);
      if (known) put({ ...known, state, state_reason: null, diagnosis: null } as Model);
      return known;
    },
    onSuccess: (model) => put(model),
    onError: (_, __, known) => known && put(known),
    onSettled: () => client.invalidateQueries({ queryKey: modelKeys.all }),
  });
}

/** Starts a model. `force` starts it although the check of its memory says no. */
export function useStartModel() {
  return useCommand("starting", ({ id, force }: { id: number; force?: boolean }) =>
    call("startModel", { path: { id }, query: { force: force ? "true" : undefined } }),
  );
}

export function useStopModel() {
  return useCommand("stopping", ({ id }: { id: number }) => call("stopModel", { path: { id } }));
}

/** Makes, changes and deletes records; the lists follow. */
export function useCreateModel() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Body<"createModel">) => call("createModel", { body }),
    onSettled: () => client.invalidateQueries({ queryKey: modelKeys.all }),
  });
}

export function useChangeModel() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, body, revision }: RecordChange<"changeModel">) =>
      call("changeModel", { path: { id }, body, headers: ifMatch(revision) }),
    onSettled: () => client.invalidateQueries({ queryKey: modelKeys.all }),
  });
}

export function useDeleteModel() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) => call("deleteModel", { path: { id } }),
    onSettled: async () => {
      // The page of the model is still open: nothing of it must be asked for again.
      await client.invalidateQueries({ queryKey: modelKeys.all, refetchType: "none" });
      await client.invalidateQueries({ queryKey: modelKeys.lists });
    },
  });
}
