import { useSyncExternalStore } from "react";
import type { Facts, ToolCall } from "./tree";

/** An answer that is being written, or that could not be kept. It lives outside of the page: leaving the page doesn't end it. */
export type Running = {
  session: string;
  /** The message that it follows. */
  parent: number;
  /** It is the rest of the answer that it follows. */
  continues: boolean;
  model: string;
  reasoning: string;
  text: string;
  tools: ToolCall[];
  startedAt: number;
  firstAt: number | null;
  reasonedUntil: number | null;
  tokens: number;
  /** `writing`: it arrives; `saving`: the gateway keeps it; `unsaved`: that failed; `failed`: nothing came. */
  state: "writing" | "saving" | "unsaved" | "failed";
  error?: unknown;
  requestId?: string | null;
  facts?: Facts;
};

const all = new Map<string, Running>();
const stops = new Map<string, () => void>();
const listeners = new Set<() => void>();

const tell = () => {
  for (const listener of listeners) listener();
};

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function setRunning(running: Running, stop?: () => void): void {
  all.set(running.session, running);
  if (stop) stops.set(running.session, stop);
  tell();
}

export function dropRunning(session: string): void {
  all.delete(session);
  stops.delete(session);
  tell();
}

export const runningOf = (session: string): Running | undefined => all.get(session);

/** Ends the answer that a chat waits for; what came stays. */
export function stopAnswer(session: string): void {
  stops.get(session)?.();
}

/** The answer that a chat waits for. */
export function useRunning(session: string): Running | undefined {
  return useSyncExternalStore(subscribe, () => all.get(session));
}

/** Whether one of some chats still gets an answer. */
export function useWriting(sessions: string[]): boolean {
  return useSyncExternalStore(subscribe, () =>
    sessions.some((it) => ["writing", "saving"].includes(all.get(it)?.state ?? "")),
  );
}

/** Why the last question of one of some chats was refused. */
export function useFailure(sessions: string[]): unknown {
  return useSyncExternalStore(
    subscribe,
    () => sessions.map((it) => all.get(it)).find((it) => it?.state === "failed")?.error,
  );
}
