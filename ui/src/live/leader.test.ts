import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Model } from "@/api/types";
import { modelKeys } from "@/data/query-keys";
import type { Shared } from "./leader";

type Stream = {
  lastId: string | null;
  send: (id: number, event: string, data: unknown) => void;
  ended: boolean;
};

/** The streams of events that tabs have opened, the oldest first. */
let streams: Stream[];
let refused: boolean;
let tabs: { close: () => void }[];

const refusal = () =>
  Response.json(
    { error: { code: "unauthenticated", message: "sign in", type: "x", param: null }, request_id: "r" },
    { status: 401 },
  );

function events({ headers, signal }: RequestInit): Response {
  if (refused) return refusal();
  let to: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (it) => {
      to = it;
    },
  });
  const write = (text: string) => to?.enqueue(new TextEncoder().encode(text));
  const stream: Stream = {
    lastId: new Headers(headers).get("last-event-id"),
    send: (id, event, data) => write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`),
    ended: false,
  };
  signal?.addEventListener("abort", () => {
    stream.ended = true;
    to?.error(signal.reason);
  });
  streams.push(stream);
  write("retry: 1\n\n");
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

beforeEach(() => {
  streams = [];
  refused = false;
  tabs = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) =>
    url.endsWith("/events") ? events(init) : Response.json({}),
  );
});

afterEach(() => {
  for (const it of tabs) it.close();
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

type Hears = (event: { data: unknown }) => void;
type Listener = { tab: object; hears: Set<Hears> };
type Lock = { holder?: (error: unknown) => void; queue: (() => void)[] };

/** The locks and channels that the tabs of one browser share. A tab that is `frozen` hears nothing and says nothing. */
function fakeBrowser() {
  const channels = new Map<string, Set<Listener>>();
  const locks = new Map<string, Lock>();
  const frozen = new Set<object>();
  const aborted = () => new DOMException("the lock is lost", "AbortError");
  const forTab = (tab: object): Shared => ({
    channel: (name) => {
      const all: Set<Listener> = channels.get(name) ?? new Set();
      channels.set(name, all);
      const mine: Listener = { tab, hears: new Set() };
      all.add(mine);
      const deliver = (to: Listener, data: unknown) => {
        if (frozen.has(to.tab)) return;
        for (const hear of [...to.hears]) hear({ data: structuredClone(data) });
      };
      return {
        postMessage: (data: unknown) => {
          if (frozen.has(tab)) return;
          for (const other of all) if (other !== mine) queueMicrotask(() => deliver(other, data));
        },
        addEventListener: (_: string, it: Hears) => mine.hears.add(it),
        removeEventListener: (_: string, it: Hears) => mine.hears.delete(it),
        close: () => all.delete(mine),
      } as unknown as BroadcastChannel;
    },
    locks: {
      request: (name, { signal, steal }, granted) =>
        new Promise((done, fail) => {
          const lock: Lock = locks.get(name) ?? { queue: [] };
          locks.set(name, lock);
          const take = () => {
            lock.holder = fail;
            const release = () => {
              if (lock.holder !== fail) return;
              lock.holder = undefined;
              lock.queue.shift()?.();
            };
            void granted().then(done, fail).finally(release);
          };
          if (steal) {
            lock.holder?.(aborted());
            take();
          } else if (lock.holder) {
            lock.queue.push(take);
            signal?.addEventListener("abort", () => {
              lock.queue = lock.queue.filter((it) => it !== take);
              fail(aborted());
            });
          } else take();
        }),
    },
  });
  return { forTab, freeze: (tab: object) => frozen.add(tab) };
}

/** Opens a tab: modules of its own, as a page has them, and a cache that knows one model. */
async function open(browser: ReturnType<typeof fakeBrowser>, { account = 1, locks = true } = {}) {
  vi.resetModules();
  const { shareEvents } = await import("./leader");
  const { connection } = await import("./connection");
  const client = new QueryClient();
  client.setQueryData(modelKeys.list(false), [
    { id: 1, served_name: "m", state: "stopped", state_reason: null, diagnosis: null } as Model,
  ]);
  const end = new AbortController();
  const tab = {
    client,
    state: () => client.getQueryData<Model[]>(modelKeys.list(false))?.[0]?.state,
    isLive: () => connection().live,
    asksForAll: () => client.getQueryState(["other"])?.isInvalidated,
    close: () => end.abort(),
    ended: Promise.resolve(),
  };
  client.setQueryData(["other"], 1);
  tabs.push(tab);
  const shared = browser.forTab(tab);
  tab.ended = shareEvents(client, "streamEvents", account, end.signal, {
    ...shared,
    locks: locks ? shared.locks : undefined,
  });
  await vi.waitFor(() => expect(tab.isLive()).toBe(true));
  return tab;
}

const state = (to: Model["state"]) => ({
  id: 1,
  served_name: "m",
  state: to,
  state_reason: null,
  needs_apply: false,
  archived: false,
  diagnosis: null,
});

it("has one connection for all tabs of an account, and each of them shows what an event says", async () => {
  const browser = fakeBrowser();
  const opened = [await open(browser), await open(browser), await open(browser)];
  expect(streams).toHaveLength(1);
  streams[0]?.send(1, "model", state("running"));
  await vi.waitFor(() => expect(opened.map((it) => it.state())).toEqual(["running", "running", "running"]));
  expect(streams).toHaveLength(1);
});

it("hands no event to the tab of another account", async () => {
  const browser = fakeBrowser();
  const mine = await open(browser);
  const other = await open(browser, { account: 2 });
  expect(streams).toHaveLength(2);
  streams[0]?.send(1, "model", state("running"));
  await vi.waitFor(() => expect(mine.state()).toBe("running"));
  expect(other.state()).toBe("stopped");
});

it("goes on in another tab when the one that reads is closed, from the event that was the last", async () => {
  const browser = fakeBrowser();
  const first = await open(browser);
  const others = [await open(browser), await open(browser)];
  streams[0]?.send(7, "model", state("starting"));
  await vi.waitFor(() => expect(others.map((it) => it.state())).toEqual(["starting", "starting"]));
  first.close();
  await vi.waitFor(() => expect(streams).toHaveLength(2));
  expect(streams[0]?.ended).toBe(true);
  expect(streams[1]?.lastId).toBe("7");
  streams[1]?.send(8, "model", state("running"));
  await vi.waitFor(() => expect(others.map((it) => it.state())).toEqual(["running", "running"]));
  expect(others.map((it) => it.isLive())).toEqual([true, true]);
  expect(first.state()).toBe("starting");
});

it("has all tabs ask again if nobody knows up to where the events were read", async () => {
  const browser = fakeBrowser();
  const first = await open(browser);
  const [second, third] = [await open(browser), await open(browser)];
  first.close();
  await vi.waitFor(() => expect(streams).toHaveLength(2));
  expect(streams[1]?.lastId).toBeNull();
  expect(third.asksForAll()).toBe(false);
  streams[1]?.send(1, "snapshot", [{ ...state("running"), pull: null }]);
  await vi.waitFor(() => expect(third.asksForAll()).toBe(true));
  expect([second.state(), third.state()]).toEqual(["running", "running"]);
});

it("takes the place of a tab that no longer answers", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const browser = fakeBrowser();
  const first = await open(browser);
  const second = await open(browser);
  browser.freeze(first);
  vi.advanceTimersByTime(60_000);
  await vi.waitFor(() => expect(streams).toHaveLength(2));
  expect(streams[0]?.ended).toBe(true);
  streams[1]?.send(1, "model", state("running"));
  await vi.waitFor(() => expect(second.state()).toBe("running"));
});

it("ends in every tab when the session has ended", async () => {
  const browser = fakeBrowser();
  const opened = [await open(browser), await open(browser)];
  refused = true;
  opened[0]?.close();
  await Promise.all(opened.map((it) => it.ended));
  expect(streams).toHaveLength(1);
});

it("reads only in the tab that is in sight where there are no locks", async () => {
  const seen = vi.spyOn(document, "visibilityState", "get").mockReturnValue("visible");
  const look = (at: DocumentVisibilityState) => {
    seen.mockReturnValue(at);
    document.dispatchEvent(new Event("visibilitychange"));
  };
  const tab = await open(fakeBrowser(), { locks: false });
  streams[0]?.send(3, "model", state("starting"));
  await vi.waitFor(() => expect(tab.state()).toBe("starting"));
  look("hidden");
  await vi.waitFor(() => expect(tab.isLive()).toBe(false));
  expect(streams.map((it) => it.ended)).toEqual([true]);
  look("visible");
  await vi.waitFor(() => expect(tab.isLive()).toBe(true));
  expect(streams[1]?.lastId).toBe("3");
});
