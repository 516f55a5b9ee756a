import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callPage, ifMatch } from "@/api/client";
import type { Body, Query, RecordChange } from "@/api/types";
import { orgKeys } from "./query-keys";

/** A page of the organisations that one may see. */
export function useOrganisations(
  query: NonNullable<Query<"listOrganisations">> = {},
  options: { enabled?: boolean; refetchInterval?: number } = {},
) {
  return useQuery({
    queryKey: [...orgKeys.all, "list", query],
    queryFn: ({ signal }) => callPage("listOrganisations", { query, signal }),
    placeholderData: keepPreviousData,
    ...options,
  });
}

/** Names and ids of organisations whose name contains a text, for choosing one. */
export function useOrganisationLookup(q: string, { enabled = true } = {}) {
  return useQuery({
    queryKey: [...orgKeys.all, "lookup", q],
    queryFn: ({ signal }) => call("lookUpOrganisations", { query: { q: q || undefined, limit: 50 }, signal }),
    placeholderData: keepPreviousData,
    enabled,
  });
}

/** One organisation by name, as there is no operation that reads one organisation. */
export function useOrganisation(name: string) {
  const query = { q: name, limit: 1000, sort: "name" as const };
  return useQuery({
    queryKey: [...orgKeys.all, "one", name],
    queryFn: async ({ signal }) => {
      const list = await call("listOrganisations", { query, signal });
      return list.find((it) => it.name === name) ?? null;
    },
    enabled: name !== "",
    refetchInterval: 10_000,
  });
}

function useRefresh() {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: orgKeys.all });
}

export function useCreateOrganisation() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (body: Body<"createOrganisation">) => call("createOrganisation", { body }),
    onSettled: refresh,
  });
}

export function useChangeOrganisation() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: ({ id, body, revision }: RecordChange<"changeOrganisation">) =>
      call("changeOrganisation", { path: { id }, body, headers: ifMatch(revision) }),
    onSettled: refresh,
  });
}

export function useDeleteOrganisation() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (id: number) => call("deleteOrganisation", { path: { id } }),
    onSettled: refresh,
  });
}
