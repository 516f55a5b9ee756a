import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callPage } from "@/api/client";
import type { Body, Query } from "@/api/types";
import { userKeys } from "./query-keys";

/** A page of the users that one may see. */
export function useUsers(query: NonNullable<Query<"listUsers">> = {}, { enabled = true } = {}) {
  return useQuery({
    queryKey: [...userKeys.all, "list", query],
    queryFn: ({ signal }) => callPage("listUsers", { query, signal }),
    placeholderData: keepPreviousData,
    enabled,
  });
}

/** Names and ids of users whose name contains a text, for choosing one. */
export function useUserLookup(q: string, { enabled = true } = {}) {
  return useQuery({
    queryKey: [...userKeys.all, "lookup", q],
    queryFn: ({ signal }) => call("lookUpUsers", { query: { q: q || undefined, limit: 50 }, signal }),
    placeholderData: keepPreviousData,
    enabled,
  });
}

function useRefresh() {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: userKeys.all });
}

export function useCreateUser() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (body: Body<"createUser">) => call("createUser", { body }),
    onSettled: refresh,
  });
}

export function useChangeUser() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: ({ id, body }: { id: number; body: Body<"changeUser"> }) =>
      call("changeUser", { path: { id }, body }),
    onSettled: refresh,
  });
}

export function useDeleteUser() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (id: number) => call("deleteUser", { path: { id } }),
    onSettled: refresh,
  });
}
