import type { QueryClient } from "@tanstack/react-query";
import { isAbort } from "@/api/errors";
import type { ServerEvent } from "@/api/stream";
import { type Connection, connection, onConnection, setConnection } from "./connection";
import {
  type EventsOf,
  gatewayLost,
  keepLive,
  type Place,
  type Told,
  take,
  tellInstead,
  tryNow,
} from "./events";
import { askForLive } from "./patch";
import { whileVisible } from "./visible";

/** How often a tab asks whether the one that reads the events is still there. One that is silent for as long has lost its place. */
const ASK_EVERY = 20_000;

/** What tabs of one account say to each other. `hello`, `try` and `lost` are for the one that reads the events. */
type Message =
  | { say: "hello" | "try" | "lost" | "gap" }
  | { say: "connection"; is: Connection }
  | { say: "event"; it: ServerEvent };

type Locks = {
  request: (name: string, options: LockOptions, granted: () => Promise<void>) => Promise<unknown>;
};
type Channel = Pick<BroadcastChannel, "postMessage" | "addEventListener" | "removeEventListener" | "close">;

/** What the tabs of one browser have in common. Web locks are for pages over TLS and of this machine only. */
export type Shared = { locks: Locks | undefined; channel: (name: string) => Channel };

const browser: Shared = {
  locks: (navigator as { locks?: Locks }).locks,
  channel: (name) => new BroadcastChannel(name),
};

const alone: Told = { event() {}, gap() {} };

/** Reads the events, hands them on, and answers the other tabs. */
async function lead(
  client: QueryClient,
  of: EventsOf,
  place: Place,
  channel: Channel,
  signal: AbortSignal,
): Promise<void> {
  const post = (message: Message) => channel.postMessage(message);
  const tell = () => post({ say: "connection", is: connection() });
  const heard = ({ data }: MessageEvent<Message>) => {
    if (data.say === "hello") tell();
    else if (data.say === "try") tryNow();
    else if (data.say === "lost") gatewayLost();
  };
  channel.addEventListener("message", heard);
  const untell = onConnection(tell);
  // Nothing says up to where the others have read.
  let begins = place.lastId === "";
  setConnection({ live: false });
  tell();
  try {
    const told: Told = {
      event: (it) => {
        post({ say: "event", it });
        if (begins) post({ say: "gap" });
        begins = false;
      },
      gap: () => post({ say: "gap" }),
    };
    await keepLive(client, of, place, told, signal);
  } finally {
    untell();
    channel.removeEventListener("message", heard);
  }
}

/** Takes the events from the tab that reads them, until the function that is returned is called. */
function follow(client: QueryClient, place: Place, channel: Channel, onSilent: () => void): () => void {
  const post = (say: "hello" | "try" | "lost") => channel.postMessage({ say } satisfies Message);
  let welcome = false;
  let answered = false;
  let due: ReturnType<typeof setTimeout> | undefined;
  const heard = ({ data }: MessageEvent<Message>) => {
    if (data.say === "event") take(client, place, data.it);
    else if (data.say === "gap") void client.invalidateQueries();
    else if (data.say === "connection") {
      answered = true;
      setConnection(data.is);
      clearTimeout(due);
      const { nextTry } = data.is;
      // Timers of a tab that is looked at are on time; those of the other one may be a minute late.
      if (nextTry !== null && document.visibilityState === "visible")
        due = setTimeout(() => post("try"), nextTry - Date.now());
      if (!welcome) askForLive(client);
      welcome = true;
    }
  };
  channel.addEventListener("message", heard);
  const untell = tellInstead({ tryNow: () => post("try"), lost: () => post("lost") });
  post("hello");
  const asking = setInterval(() => {
    if (!answered) onSilent();
    answered = false;
    post("hello");
  }, ASK_EVERY);
  return () => {
    clearInterval(asking);
    clearTimeout(due);
    untell();
    channel.removeEventListener("message", heard);
  };
}

/**
 * Keeps the cache true by events, with one connection for all tabs of an account: browsers have six for one address over HTTP/1.1.
 * One tab reads the events and hands them on. When it goes or is silent, another one takes its place. Without web locks each tab reads
 * for itself while it is in sight. Returns when `signal` ends it, or the session has ended.
 */
export async function shareEvents(
  client: QueryClient,
  of: EventsOf,
  account: number,
  signal: AbortSignal,
  { locks, channel: open }: Shared = browser,
): Promise<void> {
  const place: Place = { lastId: "" };
  const byItself = () => whileVisible(signal, (inSight) => keepLive(client, of, place, alone, inSight));
  if (!locks) return byItself();
  const name = `gantry.events ${account} ${of}`;
  const channel = open(name);
  let steal = false;
  try {
    while (!signal.aborted) {
      const silent = new AbortController();
      const replaced = new AbortController();
      let leading = Promise.resolve();
      const unfollow = follow(client, place, channel, () => silent.abort());
      const options = steal ? { steal } : { signal: AbortSignal.any([signal, silent.signal]) };
      try {
        await locks.request(name, options, () => {
          unfollow();
          leading = lead(client, of, place, channel, AbortSignal.any([signal, replaced.signal]));
          return leading;
        });
        return;
      } catch (error) {
        if (!isAbort(error)) return byItself();
        steal = silent.signal.aborted;
      } finally {
        replaced.abort();
        unfollow();
        await leading;
      }
    }
  } finally {
    channel.close();
  }
}
