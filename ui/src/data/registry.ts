import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Body, Schema } from "@/api/types";
import { modelKeys, upstreamKeys } from "./query-keys";

export type RegistryEntry = Schema<"RegistryEntry">;

/** The engines that an owner added: they run elsewhere. */
export function useRegistry(enabled = true) {
  return useQuery({
    queryKey: [...modelKeys.all, "registry"],
    queryFn: ({ signal }) => call("listRegistry", { query: { limit: 1000 }, signal }),
    select: (entries) => entries.filter((it) => it.source === "manual"),
    refetchInterval: 5000,
    enabled,
  });
}

function useRefresh() {
  const client = useQueryClient();
  return () =>
    Promise.all([
      client.invalidateQueries({ queryKey: [...modelKeys.all, "registry"] }),
      client.invalidateQueries({ queryKey: upstreamKeys.all }),
    ]);
}

export function useAddRegistryEntry() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (body: Body<"addRegistryEntry">) => call("addRegistryEntry", { body }),
    onSettled: refresh,
  });
}

export function useChangeRegistryEntry() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: ({ name, body }: { name: string; body: Body<"changeRegistryEntry"> }) =>
      call("changeRegistryEntry", { path: { served_name: name }, body }),
    onSettled: refresh,
  });
}

/** The name stands in the query, since it may contain slashes. */
export function useRemoveRegistryEntry() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (served_name: string) => call("removeRegistryEntryByQuery", { query: { served_name } }),
    onSettled: refresh,
  });
}
