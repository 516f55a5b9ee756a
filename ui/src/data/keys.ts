import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callPage } from "@/api/client";
import type { Body, Query } from "@/api/types";
import { keyKeys } from "./query-keys";

/** A page of the keys of those whom one manages. */
export function useKeys(query: NonNullable<Query<"listKeys">>, { enabled = true } = {}) {
  return useQuery({
    queryKey: [...keyKeys.all, query],
    queryFn: ({ signal }) => callPage("listKeys", { query, signal }),
    placeholderData: keepPreviousData,
    enabled,
  });
}

/** One's own keys. */
export function useOwnKeys(query: NonNullable<Query<"listOwnKeys">> = {}, { enabled = true } = {}) {
  return useQuery({
    queryKey: [...keyKeys.own, query],
    queryFn: ({ signal }) => callPage("listOwnKeys", { query, signal }),
    placeholderData: keepPreviousData,
    enabled,
  });
}

function useRefresh() {
  const client = useQueryClient();
  return () =>
    Promise.all([
      client.invalidateQueries({ queryKey: keyKeys.all }),
      client.invalidateQueries({ queryKey: keyKeys.own }),
    ]);
}

/** Makes a key; its token is in the answer, this once. */
export function useCreateKey() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (body: Body<"createKey">) => call("createKey", { body }),
    onSettled: refresh,
  });
}

export function useCreateOwnKey() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (body: Body<"createOwnKey">) => call("createOwnKey", { body }),
    onSettled: refresh,
  });
}

export function useChangeKey() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: ({ id, body }: { id: number; body: Body<"changeKey"> }) =>
      call("changeKey", { path: { id }, body }),
    onSettled: refresh,
  });
}

export function useRevokeKey() {
  const refresh = useRefresh();
  return useMutation({ mutationFn: (id: number) => call("revokeKey", { path: { id } }), onSettled: refresh });
}

export function useRevokeOwnKey() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (id: number) => call("revokeOwnKey", { path: { id } }),
    onSettled: refresh,
  });
}
