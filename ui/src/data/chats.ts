import {
  type InfiniteData,
  infiniteQueryOptions,
  type QueryClient,
  queryOptions,
  useInfiniteQuery,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useCallback, useEffect } from "react";
import { call, callPage, type Page } from "@/api/client";
import type { Answer, Body, Item } from "@/api/types";
import { chatKeys } from "./query-keys";

export type Chat = Answer<"getChat">;
export type ChatSummary = Item<"listChats">;
export type ChatMessage = Chat["messages"][number];

const PAGE = 200;
/** How soon the list tells that an answer which another page follows has ended. */
const ANSWERING_POLL_MS = 5000;

const chatsQuery = infiniteQueryOptions({
  queryKey: chatKeys.list,
  initialPageParam: 0,
  queryFn: ({ pageParam, signal }) =>
    callPage("listChats", { query: { messages: "false", limit: PAGE, offset: pageParam }, signal }),
  getNextPageParam: (last, pages) => {
    const had = pages.reduce((sum, page) => sum + page.items.length, 0);
    return last.items.length === PAGE && had < last.total ? had : undefined;
  },
  // Another browser may have written in them.
  refetchOnWindowFocus: "always",
  refetchInterval: ({ state }) =>
    state.data?.pages.some((page) => page.items.some((it) => it.answering)) ? ANSWERING_POLL_MS : false,
});

/** The user's chats without their messages, pinned ones first and then the newest first, page by page. */
export const useChats = () => useInfiniteQuery(chatsQuery);

/** What the list says of one chat; `undefined` if it is not on the pages that were read. */
export const useChatSummary = (id: string): ChatSummary | undefined =>
  useInfiniteQuery({
    ...chatsQuery,
    select: useCallback(
      ({ pages }: InfiniteData<Page<ChatSummary>>) =>
        pages.flatMap((it) => it.items).find((it) => it.id === id),
      [id],
    ),
  }).data;

const chatQuery = (id: string) =>
  queryOptions({
    queryKey: chatKeys.one(id),
    queryFn: ({ signal }) => call("getChat", { path: { id }, signal }),
    // Only this user writes in it. What they write here is put into the cache; of other tabs the list tells.
    staleTime: 60_000,
  });

/** One chat with its messages. */
export const useChat = (id: string) => useQuery(chatQuery(id));

/** Several chats with their messages. */
export const useChatsOf = (ids: string[]) => useQueries({ queries: ids.map(chatQuery) });

/** Begins a chat with a model. */
export async function createChat(client: QueryClient, body: Body<"createChat">): Promise<Chat> {
  const chat = await call("createChat", { body });
  client.setQueryData(chatKeys.one(chat.id), chat);
  return chat;
}

let channel: BroadcastChannel | undefined;
const tabs = (): BroadcastChannel => {
  channel ??= new BroadcastChannel("gantry.chats");
  return channel;
};

/** Says that a chat has changed: this tab and all others of this browser ask for the list again. */
function chatsChanged(client: QueryClient): void {
  void client.invalidateQueries({ queryKey: chatKeys.list });
  tabs().postMessage(null);
}

/** Hears from other tabs of this browser that a chat has changed. */
export function useOtherTabs(): void {
  const client = useQueryClient();
  useEffect(() => {
    const heard = () => void client.invalidateQueries({ queryKey: chatKeys.list });
    tabs().addEventListener("message", heard);
    return () => tabs().removeEventListener("message", heard);
  }, [client]);
}

function changeChat(client: QueryClient, id: string, change: (chat: Chat) => Chat): void {
  const key = chatKeys.one(id);
  client.setQueryData<Chat>(key, (chat) => chat && change(chat));
  // What is on its way was read before the change, so it is asked for again.
  if (client.isFetching({ queryKey: key }) > 0) void client.invalidateQueries({ queryKey: key });
  chatsChanged(client);
}

/** Puts messages that the gateway has stored into what the cache knows of their chat. */
export function putMessages(client: QueryClient, id: string, added: ChatMessage[]): void {
  changeChat(client, id, (chat) => {
    const fresh = added.filter((it) => chat.messages.every((old) => old.id !== it.id));
    const messages = [...chat.messages, ...fresh].sort((a, b) => a.id - b.id);
    return { ...chat, messages, updated_at: messages.at(-1)?.timestamp ?? chat.updated_at };
  });
}

/** Adds a message to a chat, and to what the cache knows of it. */
export async function addMessage(
  client: QueryClient,
  id: string,
  body: Body<"addChatMessage">,
): Promise<ChatMessage> {
  const message = await call("addChatMessage", { path: { id }, body });
  putMessages(client, id, [message]);
  return message;
}

/** Notes that a chat is being answered, or no longer is. */
export function setAnswering(client: QueryClient, id: string, answering: boolean): void {
  changeChat(client, id, (chat) => ({ ...chat, answering }));
}

/** Reads a chat again. */
export const readChat = (client: QueryClient, id: string): Promise<Chat> =>
  client.fetchQuery({ ...chatQuery(id), staleTime: 0 });

/** What the cache knows of a chat. */
export const knownChat = (client: QueryClient, id: string): Chat | undefined =>
  client.getQueryData(chatQuery(id).queryKey);

/** Has a chat that is shown read again. */
export const refreshChat = (client: QueryClient, id: string): Promise<void> =>
  client.invalidateQueries({ queryKey: chatKeys.one(id) });

/** Ends the answer that is being written in a chat; what came is stored. */
export const stopChatAnswer = (id: string) => call("stopChatAnswer", { path: { id } });

/** Forgets what the cache has of a chat that was deleted, or of all, once no page shows it. */
export const forgetChats = (client: QueryClient, id: string | null): void =>
  client.removeQueries({ queryKey: id === null ? ["chats", "one"] : chatKeys.one(id) });

/** Renames a chat, or pins it. */
export function useChangeChat() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, body }: { id: string; body: Body<"changeChat"> }) =>
      call("changeChat", { path: { id }, body }),
    onSuccess: ({ id, title, pinned }) => {
      const changed = (it: ChatSummary) => (it.id === id ? { ...it, title, pinned } : it);
      client.setQueryData(
        chatsQuery.queryKey,
        (old) =>
          old && { ...old, pages: old.pages.map((page) => ({ ...page, items: page.items.map(changed) })) },
      );
      changeChat(client, id, (chat) => ({ ...chat, title, pinned }));
    },
    onError: () => chatsChanged(client),
  });
}

/** Deletes one chat. */
export function useDeleteChat() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => call("deleteChat", { path: { id } }),
    onSettled: () => chatsChanged(client),
  });
}

/** Deletes all chats of the user. */
export function useDeleteAllChats() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => call("deleteAllChats"),
    onSettled: () => chatsChanged(client),
  });
}
