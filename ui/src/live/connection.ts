import { useSyncExternalStore } from "react";

/** Whether the gateway answers, and whether its events arrive. */
export type Connection = {
  /** When it was noticed that the gateway does not answer; `null`: it does. */
  lostSince: number | null;
  /** When it is tried next; `null`: right now, or it answers. */
  nextTry: number | null;
  /** Events arrive, so what they keep true need not be asked for. */
  live: boolean;
};

let state: Connection = { lostSince: null, nextTry: null, live: false };
const listeners = new Set<() => void>();

export function setConnection(change: Partial<Connection>): void {
  const next = { ...state, ...change };
  if (next.lostSince === state.lostSince && next.nextTry === state.nextTry && next.live === state.live)
    return;
  state = next;
  for (const listener of listeners) listener();
}

export function connection(): Connection {
  return state;
}

export function onConnection(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The connection to the gateway, as it is now. */
export function useConnection(): Connection {
  return useSyncExternalStore(onConnection, connection);
}

const isLive = () => state.live;

/**
 * The options of a query that events keep true: while they arrive it is never asked again by itself, else every five seconds.
 */
export function useLiveOptions(): { staleTime: number; refetchInterval: number | false } {
  const live = useSyncExternalStore(onConnection, isLive);
  return live ? { staleTime: Infinity, refetchInterval: false } : { staleTime: 1000, refetchInterval: 5000 };
}
