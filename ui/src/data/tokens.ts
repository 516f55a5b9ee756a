import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Body, Query } from "@/api/types";
import { tokenKeys } from "./query-keys";

/** One's own tokens for the admin API. */
export function useOwnTokens() {
  return useQuery({
    queryKey: tokenKeys.own,
    queryFn: ({ signal }) => call("listOwnTokens", { query: { limit: 1000 }, signal }),
  });
}

/** Makes a token; it is in the answer, this once. */
export function useCreateOwnToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Body<"createOwnToken">) => call("createOwnToken", { body }),
    onSettled: () => client.invalidateQueries({ queryKey: tokenKeys.own }),
  });
}

export function useRevokeOwnToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) => call("revokeOwnToken", { path: { id } }),
    onSettled: () => client.invalidateQueries({ queryKey: tokenKeys.own }),
  });
}

/** Tokens of those whom one manages. */
export function useTokens(query: NonNullable<Query<"listTokens">>) {
  return useQuery({
    queryKey: [...tokenKeys.all, query],
    queryFn: ({ signal }) => call("listTokens", { query, signal }),
  });
}

export function useRevokeToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) => call("revokeToken", { path: { id } }),
    onSettled: () => client.invalidateQueries({ queryKey: tokenKeys.all }),
  });
}
