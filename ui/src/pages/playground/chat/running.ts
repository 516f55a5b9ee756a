import { useSyncExternalStore } from "react";
import type { ChatMessage } from "@/data/chats";
import { type Facts, joinReasoning } from "./tree";
import type { Written } from "./written";

/** An answer that the gateway is writing, as far as this page has it, or one that is not stored. */
export type Running = Written & {
  session: string;
  /** The message that it follows. */
  parent: number;
  /** It is the rest of the answer that it follows. */
  continues: boolean;
  model: string;
  /** When it began, on the clock of this page (`performance.now()`). */
  startedAt: number;
  /** The newest message of the chat when this page heard of it: the answer gets a greater id. */
  known: number;
  requestId: string | null;
  /**
   * `asking`: nothing is heard yet; `writing`: it arrives; `lost`: the connection is lost, and the answer is looked for;
   * `unsaved`: it is here and not stored; `failed`: nothing came.
   */
  state: "asking" | "writing" | "lost" | "unsaved" | "failed";
  error?: unknown;
  /** What is to be stored, once it can be. */
  unsaved?: { content: string; facts: Facts };
};

const all = new Map<string, Running>();
const listeners = new Set<() => void>();

const tell = () => {
  for (const listener of listeners) listener();
};

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function setRunning(running: Running): void {
  all.set(running.session, running);
  tell();
}

export function dropRunning(session: string): void {
  if (all.delete(session)) tell();
}

export const runningOf = (session: string): Running | undefined => all.get(session);

/** Whether the gateway writes it, as far as this page knows. */
export const isWriting = (running: Running | undefined): boolean =>
  running !== undefined && running.state !== "unsaved" && running.state !== "failed";

/**
 * Whether a chat has the answer by now. A gateway that ended in mid-answer has stored what had come a moment before, which may be
 * less than what is here.
 */
export function isStored(running: Running, messages: readonly ChatMessage[]): boolean {
  const { known, parent, reasoning, text } = running;
  const here = joinReasoning(reasoning, text).length;
  return messages.some(
    (it) =>
      it.role === "assistant" &&
      it.id > known &&
      it.metrics?.parent === parent &&
      (it.metrics.ending !== "interrupted" || it.content.length >= here),
  );
}

/** The answer that a chat waits for. */
export function useRunning(session: string): Running | undefined {
  return useSyncExternalStore(subscribe, () => all.get(session));
}

/** Whether one of some chats still gets an answer. */
export function useWriting(sessions: string[]): boolean {
  return useSyncExternalStore(subscribe, () => sessions.some((it) => isWriting(all.get(it))));
}

/** Whether the answer of one of some chats is here only. */
export function useUnsaved(sessions: string[]): boolean {
  return useSyncExternalStore(subscribe, () => sessions.some((it) => all.get(it)?.state === "unsaved"));
}

/** Why the last question of one of some chats was refused. */
export function useFailure(sessions: string[]): unknown {
  return useSyncExternalStore(
    subscribe,
    () => sessions.map((it) => all.get(it)).find((it) => it?.state === "failed")?.error,
  );
}
