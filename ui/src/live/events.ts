import type { QueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import { ApiError, NetworkError } from "@/api/errors";
import { type ServerEvent, SseParser, stream } from "@/api/stream";
import { connection, setConnection } from "./connection";
import { patch } from "./patch";

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 15_000;
/** The gateway sends a comment every 15 s at the latest: a connection that is silent for longer is dead. */
const SILENT_TOO_LONG = 40_000;

let wake: (() => void) | undefined;
let noticed: (() => void) | undefined;

/** Tries to reach the gateway now, and not at the next try. */
export function tryNow(): void {
  wake?.();
}

/** Has another tab, which reads the events, hear what requests of this one find out. Returns what ends that. */
export function tellInstead(to: { tryNow: () => void; lost: () => void }): () => void {
  wake = to.tryNow;
  noticed = to.lost;
  return () => {
    if (wake === to.tryNow) wake = undefined;
    if (noticed === to.lost) noticed = undefined;
  };
}

/** Says that a request found the gateway lost: the connection is tested at once. */
export function gatewayLost(): void {
  if (connection().lostSince === null) setConnection({ lostSince: Date.now(), nextTry: null, live: false });
  noticed?.();
}

/** Says that the gateway answered a request. */
export function gatewayAnswered(): void {
  if (connection().lostSince !== null) wake?.();
}

const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    const end = () => {
      clearTimeout(timer);
      done();
    };
    wake = end;
    signal.addEventListener("abort", end, { once: true });
  });

/** Waits until the gateway answers again, and says meanwhile when the next try is. */
async function untilBack(signal: AbortSignal): Promise<void> {
  for (let wait = FIRST_WAIT; !signal.aborted; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    setConnection({
      lostSince: connection().lostSince ?? Date.now(),
      nextTry: Date.now() + wait,
      live: false,
    });
    await sleep(wait, signal);
    if (signal.aborted) return;
    setConnection({ nextTry: null });
    try {
      await call("getLiveness", { signal });
      return;
    } catch (error) {
      if (!(error instanceof NetworkError)) return;
    }
  }
}

async function answers(signal: AbortSignal): Promise<boolean> {
  try {
    await call("getLiveness", { signal });
    return true;
  } catch (error) {
    return error instanceof ApiError;
  }
}

/** The streams of events: of everything, for those who may read it, and of the models that one may call. */
export type EventsOf = "streamEvents" | "streamOwnEvents";

/** Up to where events were read, by this tab or by the one that read before it: a new connection goes on from there. */
export type Place = { lastId: string };

/** Functions that are called for each event, and after each gap in which events may have been missed. */
export type Told = { event: (it: ServerEvent) => void; gap: () => void };

/** Puts one event into the cache. */
export function take(client: QueryClient, place: Place, { event, data, id }: ServerEvent): void {
  // After a lag everything has to be sent anew.
  place.lastId = event === "lag" ? "" : id;
  patch(client, event, data);
}

/** Reads events until the connection ends. Throws why it could not be made. Returns after how many ms to ask again, if that was said. */
async function readEvents(
  client: QueryClient,
  of: EventsOf,
  place: Place,
  told: Told,
  signal: AbortSignal,
): Promise<number | null> {
  const parser = new SseParser();
  parser.lastId = place.lastId;
  const ended = new AbortController();
  const end = () => ended.abort();
  signal.addEventListener("abort", end, { once: true });
  noticed = end;
  let timer = setTimeout(end, SILENT_TOO_LONG);
  try {
    const headers: Record<string, string> = place.lastId ? { "last-event-id": place.lastId } : {};
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(end, SILENT_TOO_LONG);
      const { lostSince } = connection();
      setConnection({ live: true, lostSince: null, nextTry: null });
      // The tab that read before has left while the gateway was lost.
      if (lostSince !== null) missed(client, told);
    };
    for await (const event of stream(of, {
      headers,
      parser,
      signal: ended.signal,
      onBytes: heard,
      // Something on the way may refuse streams only: then pages poll.
      quiet: true,
    })) {
      told.event(event);
      take(client, place, event);
    }
    return parser.retry;
  } finally {
    clearTimeout(timer);
    if (noticed === end) noticed = undefined;
    signal.removeEventListener("abort", end);
    setConnection({ live: false });
  }
}

function missed(client: QueryClient, told: Told): void {
  void client.invalidateQueries();
  told.gap();
}

/**
 * Keeps the cache true by events until `signal` ends it, or the session has ended. After a gap everything is asked for again, as
 * events may have been missed.
 */
export async function keepLive(
  client: QueryClient,
  of: EventsOf,
  place: Place,
  told: Told,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    let retry: number | null = null;
    try {
      retry = await readEvents(client, of, place, told, signal);
    } catch (error) {
      if (signal.aborted) return;
      // Signed out, too many streams, or not allowed: pages poll until the next try.
      if (error instanceof ApiError) {
        if (error.status === 401) return;
        await sleep(LONGEST_WAIT, signal);
        continue;
      }
    }
    if (signal.aborted) return;
    if (connection().lostSince === null && (await answers(signal))) {
      // The stream ended by itself: a proxy's limit, a drain, or the reader was too slow.
      await sleep(retry ?? FIRST_WAIT, signal);
      continue;
    }
    await untilBack(signal);
    const wasLost = connection().lostSince;
    setConnection({ lostSince: null, nextTry: null });
    if (wasLost !== null) missed(client, told);
  }
}
