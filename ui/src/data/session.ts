import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { call } from "@/api/client";
import { ApiError } from "@/api/errors";
import { operations } from "@/api/operations";
import type { Answer, Body, OperationId, Role } from "@/api/types";
import { sessionKeys } from "./query-keys";

export type SignedIn = Answer<"getMe">["user"];

const RANK: Record<Role, number> = { user: 0, org_admin: 1, admin: 2, owner: 3 };

/** Whether a role has all rights of another one. */
export function hasRole(role: Role, needed: Role): boolean {
  return RANK[role] >= RANK[needed];
}

/** Returns who is signed in, or `null`. */
export async function fetchMe(signal?: AbortSignal): Promise<SignedIn | null> {
  try {
    return (await call("getMe", { signal })).user;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

export const meQuery = queryOptions({
  queryKey: sessionKeys.me,
  // When the session ends, the page stays as it is below the dialog that asks to sign in again.
  queryFn: async ({ client, signal }): Promise<SignedIn | null> => {
    const known = client.getQueryData<SignedIn | null>(sessionKeys.me);
    return (await fetchMe(signal)) ?? known ?? null;
  },
  staleTime: 60_000,
});

/** Who is signed in; pages behind the sign-in always have somebody. */
export function useMe() {
  const { data } = useQuery(meQuery);
  return data ?? null;
}

/** Whether a role may call an operation. */
export function roleMay(role: Role | undefined, operation: OperationId): boolean {
  const needed = operations[operation].role;
  return needed === null || (role !== undefined && hasRole(role, needed));
}

/** Returns `may`: whether the signed-in user may call an operation. What they may not call is not shown. */
export function useMay(): (operation: OperationId) => boolean {
  const role = useMe()?.role;
  return useCallback((operation) => roleMay(role, operation), [role]);
}

/** Whether there is an owner, and whether making one needs the token. */
export const setupQuery = queryOptions({
  queryKey: sessionKeys.setup,
  queryFn: ({ signal }) => call("getSetup", { signal }),
  staleTime: 0,
});

/** Returns who has just signed in. It fails with the code `no_cookie` if the browser kept no cookie: `Secure` over plain HTTP, say. */
async function signedIn(): Promise<SignedIn> {
  const me = await fetchMe();
  if (!me) throw new ApiError(401, { code: "no_cookie" });
  return me;
}

/** Signs in; fails like {@link signedIn}. */
export function useSignIn() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async (body: Body<"signIn">) => {
      await call("signIn", { body });
      return signedIn();
    },
    onSuccess: (me) => client.setQueryData(sessionKeys.me, me),
  });
}

/** Sets the password with a one-time link, and signs in; fails like {@link signedIn}. */
export function useSetPasswordByLink() {
  return useMutation({
    mutationFn: async (body: Body<"usePasswordLink">) => {
      await call("usePasswordLink", { body });
      return signedIn();
    },
  });
}

export function useSignOut() {
  return useMutation({ mutationFn: () => call("signOut") });
}

export function useBootstrapOwner() {
  return useMutation({ mutationFn: (body: Body<"bootstrapOwner">) => call("bootstrapOwner", { body }) });
}

export function useChangePassword() {
  return useMutation({
    mutationFn: (body: Body<"changeOwnPassword">) => call("changeOwnPassword", { body }),
  });
}

/** Where one is signed in. */
export function useOwnSessions() {
  return useQuery({
    queryKey: sessionKeys.own,
    queryFn: ({ signal }) => call("listOwnSessions", { signal }),
  });
}

export function useEndOwnSession() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => call("endOwnSession", { path: { id } }),
    onSettled: () => client.invalidateQueries({ queryKey: sessionKeys.own }),
  });
}

/** Ends all sessions but the one of this browser. */
export function useEndOtherSessions() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => call("endOtherSessions"),
    onSettled: () => client.invalidateQueries({ queryKey: sessionKeys.own }),
  });
}
