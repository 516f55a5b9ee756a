import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callPage, ifMatch } from "@/api/client";
import type { Body, Query, RecordChange } from "@/api/types";
import { keyKeys } from "./query-keys";

type KeyQuery = NonNullable<Query<"listKeys">>;
type Options = { enabled?: boolean; refetchInterval?: number };

/** A page of the keys of those whom one manages. */
export function useKeys(query: KeyQuery, options: Options = {}) {
  return useQuery({
    queryKey: [...keyKeys.all, query],
    queryFn: ({ signal }) => callPage("listKeys", { query, signal }),
    placeholderData: keepPreviousData,
    ...options,
  });
}

/** One's own keys. */
export function useOwnKeys(query: NonNullable<Query<"listOwnKeys">> = {}, options: Options = {}) {
  return useQuery({
    queryKey: [...keyKeys.own, query],
    queryFn: ({ signal }) => callPage("listOwnKeys", { query, signal }),
    placeholderData: keepPreviousData,
    ...options,
  });
}

/** One key by the beginning of its token, as there is no operation that reads one key. */
export function useKey(prefix: string, own: boolean) {
  const query = { q: prefix, limit: 10 };
  return useQuery({
    queryKey: [...(own ? keyKeys.own : keyKeys.all), "one", prefix],
    queryFn: async ({ signal }) => {
      const list = own
        ? await call("listOwnKeys", { query, signal })
        : await call("listKeys", { query, signal });
      return list.find((it) => it.prefix === prefix) ?? null;
    },
    enabled: prefix !== "",
    refetchInterval: 10_000,
  });
}

/** Asks the gateway, with a key, for the models that it may call, and for a short answer of one of them if there is one. */
export function useTestKey() {
  return useMutation({
    mutationFn: async ({ token, model }: { token: string; model: string | null }) => {
      const headers = { authorization: `Bearer ${token}` };
      const begun = performance.now();
      if (model === null) {
        await call("listCallableModels", { headers });
        return { ms: performance.now() - begun, text: null };
      }
      const messages = [{ role: "user", content: "Hello" }];
      const answer = await call("createChatCompletion", {
        headers,
        body: { model, messages, max_tokens: 16 },
      });
      return { ms: performance.now() - begun, text: textOf(answer.choices) };
    },
  });
}

function textOf(choices: unknown): string {
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
  if (typeof first !== "object" || first === null || !("message" in first)) return "";
  const { message } = first;
  if (typeof message !== "object" || message === null || !("content" in message)) return "";
  return typeof message.content === "string" ? message.content : "";
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
    mutationFn: ({ id, body, revision }: RecordChange<"changeKey">) =>
      call("changeKey", { path: { id }, body, headers: ifMatch(revision) }),
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
