import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callPage, ifMatch } from "@/api/client";
import type { Body, Query, RecordChange } from "@/api/types";
import { userKeys } from "./query-keys";

/** A page of the users that one may see. */
export function useUsers(
  query: NonNullable<Query<"listUsers">> = {},
  options: { enabled?: boolean; refetchInterval?: number } = {},
) {
  return useQuery({
    queryKey: [...userKeys.all, "list", query],
    queryFn: ({ signal }) => callPage("listUsers", { query, signal }),
    placeholderData: keepPreviousData,
    ...options,
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

/** One user by name, as there is no operation that reads one user. */
export function useUser(username: string) {
  const query = { q: username, limit: 1000, sort: "username" as const };
  return useQuery({
    queryKey: [...userKeys.all, "one", username],
    queryFn: async ({ signal }) => {
      const list = await call("listUsers", { query, signal });
      return list.find((it) => it.username === username) ?? null;
    },
    enabled: username !== "",
    refetchInterval: 10_000,
  });
}

/** The owners who can sign in: the last one can't be removed. Those of other organisations are unknown to an org admin. */
export function useOwners(enabled: boolean) {
  return useQuery({
    queryKey: [...userKeys.all, "owners"],
    queryFn: async ({ signal }) => {
      const owners = await call("listUsers", { query: { role: "owner", limit: 1000 }, signal });
      return owners.filter((it) => it.enabled);
    },
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
    mutationFn: ({ id, body, revision }: RecordChange<"changeUser">) =>
      call("changeUser", { path: { id }, body, headers: ifMatch(revision) }),
    onSettled: refresh,
  });
}

/** Makes a link with which the user with this id sets their password, once. */
export function useCreatePasswordLink() {
  return useMutation({
    mutationFn: (id: number) => call("createPasswordLink", { path: { id }, body: {} }),
  });
}

export function useDeleteUser() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (id: number) => call("deleteUser", { path: { id } }),
    onSettled: refresh,
  });
}
