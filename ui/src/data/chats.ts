import {
  type QueryClient,
  queryOptions,
  useInfiniteQuery,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { call, callPage } from "@/api/client";
import type { Answer, Body, Item } from "@/api/types";
import { chatKeys } from "./query-keys";

export type Chat = Answer<"getChat">;
export type ChatSummary = Item<"listChats">;
export type ChatMessage = Chat["messages"][number];

const PAGE = 200;

/** The user's chats without their messages, the newest first, page by page. */
export function useChats() {
  return useInfiniteQuery({
    queryKey: chatKeys.list,
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) =>
      callPage("listChats", { query: { messages: "false", limit: PAGE, offset: pageParam }, signal }),
    getNextPageParam: (last, pages) => {
      const had = pages.reduce((sum, page) => sum + page.items.length, 0);
      return last.items.length === PAGE && had < last.total ? had : undefined;
    },
  });
}

const chatQuery = (id: string) =>
  queryOptions({
    queryKey: chatKeys.one(id),
    queryFn: ({ signal }) => call("getChat", { path: { id }, signal }),
    // Only this user writes in it, and what they write here is put into the cache.
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

/** Adds a message to a chat, and to what the cache knows of it. */
export async function addMessage(
  client: QueryClient,
  id: string,
  body: Body<"addChatMessage">,
): Promise<ChatMessage> {
  const message = await call("addChatMessage", { path: { id }, body });
  client.setQueryData<Chat>(chatKeys.one(id), (chat) =>
    chat ? { ...chat, messages: [...chat.messages, message], updated_at: message.timestamp } : chat,
  );
  // The list shows the newest first, and a title comes from the first message.
  void client.invalidateQueries({ queryKey: chatKeys.list });
  return message;
}

/** Deletes one chat. */
export function useDeleteChat() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => call("deleteChat", { path: { id } }),
    onSuccess: (_, id) => client.removeQueries({ queryKey: chatKeys.one(id) }),
    onSettled: () => client.invalidateQueries({ queryKey: chatKeys.list }),
  });
}

/** Deletes all chats of the user. */
export function useDeleteAllChats() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => call("deleteAllChats"),
    onSuccess: () => client.removeQueries({ queryKey: ["chats", "one"] }),
    onSettled: () => client.invalidateQueries({ queryKey: chatKeys.list }),
  });
}
