import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { refreshChat, useChat, useChatSummary } from "@/data/chats";
import { follow, LOOK_AGAIN_MS, leaveAnswer, stayWithAnswer } from "./answer";
import { dropRunning, isStored, useRunning } from "./running";

/**
 * Keeps a chat that is shown in step with the gateway. The page reads the chat's answer while it shows the chat, also if another
 * tab asked for it, and shows what other tabs write. `waiting` is the last question, if it has no answer.
 */
export function useInStep(session: string, waiting: number | undefined): void {
  const client = useQueryClient();
  const { data } = useChat(session);
  const answering = data?.answering ?? false;
  useEffect(() => {
    stayWithAnswer(session);
    return () => leaveAnswer(session);
  }, [session]);
  useEffect(() => {
    if (answering) void follow(client, session);
  }, [client, session, answering]);

  const summary = useChatSummary(session);
  const count = data?.messages.length;
  const behind =
    summary !== undefined &&
    data !== undefined &&
    (summary.message_count !== count || (summary.answering && !answering));
  const said = `${summary?.message_count} ${summary?.answering}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only news of the list are a reason to ask; own messages are not
  useEffect(() => {
    if (behind) void refreshChat(client, session);
  }, [client, session, said]);

  const running = useRunning(session);
  const found = running?.state === "unsaved" && isStored(running, data?.messages ?? []);
  useEffect(() => {
    // Another tab has saved it, or it was another gateway that wrote it.
    if (found) dropRunning(session);
  }, [session, found]);

  useEffect(() => {
    if (waiting === undefined) return;
    // Another gateway may be writing the answer: this one knows it once it is stored.
    const timer = setTimeout(() => void refreshChat(client, session), LOOK_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [client, session, waiting]);
}
