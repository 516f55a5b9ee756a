import type { QueryClient } from "@tanstack/react-query";
import { addMessage, type ChatMessage } from "@/data/chats";
import { dropRunning, type Running, runningOf, setRunning } from "./running";
import { type Ending, type Facts, joinReasoning, partsOf } from "./tree";

/** Adds a text that may be longer than one message of the gateway. Returns the ids of its parts. */
export async function keepAll(
  client: QueryClient,
  session: string,
  role: ChatMessage["role"],
  content: string,
  facts: Facts,
): Promise<number[]> {
  const ids: number[] = [];
  for (const part of partsOf(content)) {
    const metrics = {
      ...facts,
      parent: ids.at(-1) ?? facts.parent,
      continues: ids.length > 0 || facts.continues,
    };
    ids.push((await addMessage(client, session, { role, content: part, metrics })).id);
  }
  return ids;
}

// The gateway takes 8 KiB of facts.
const short = (text: string, most = 600) => (text.length > most ? `${text.slice(0, most)}…` : text);

/** What this page knows of an answer that the gateway did not store. */
export function factsOf(running: Running, ending: Ending): Facts {
  const { parent, continues, model, ttft, reasoningMs, tokens, requestId, tools } = running;
  return {
    parent,
    continues: continues || undefined,
    model,
    ttft_ms: ttft ?? undefined,
    reasoning_ms: reasoningMs ?? undefined,
    completion_tokens: tokens,
    estimated: true,
    ending,
    request_id: requestId ?? undefined,
    tool_calls: tools.slice(0, 8).map((it) => ({ name: it.name, arguments: short(it.arguments) })),
  };
}

/** Shows an answer as one that is here only. `content` is what the gateway says that it is; without it, what arrived. */
export function setUnsaved(running: Running, ending: Ending, error: unknown, content?: string): void {
  setRunning({
    ...running,
    state: "unsaved",
    error,
    unsaved: {
      content: content ?? joinReasoning(running.reasoning, running.text),
      facts: factsOf(running, ending),
    },
  });
}

/** Has the gateway store an answer that is here only. */
export async function keepUnsaved(client: QueryClient, session: string): Promise<void> {
  const running = runningOf(session);
  if (!running?.unsaved) return;
  const { content, facts } = running.unsaved;
  try {
    await keepAll(client, session, "assistant", content, facts);
    dropRunning(session);
  } catch (error) {
    setRunning({ ...running, error });
  }
}
