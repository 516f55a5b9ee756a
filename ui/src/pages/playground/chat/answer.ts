import type { QueryClient } from "@tanstack/react-query";
import { ApiError, NetworkError } from "@/api/errors";
import { stream } from "@/api/stream";
import { knownChat, putMessages, readChat, refreshChat, setAnswering, stopChatAnswer } from "@/data/chats";
import { setUnsaved } from "./keep";
import { pace } from "./pace";
import { dropRunning, isStored, runningOf, setRunning } from "./running";
import { type Begin, type Delta, type End, errorOfEnd, nothing, take } from "./written";

/** The gateway writes a comment every 15 s: a connection that is silent for longer is dead. */
const SILENT_TOO_LONG = 40_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;
/** An answer that another gateway writes is not known to this one until it is stored: it is looked for once more. */
export const LOOK_AGAIN_MS = 4000;

export type Asked = {
  session: string;
  parent: number;
  continues: boolean;
  model: string;
  request: Record<string, unknown>;
};

type Reading = {
  client: QueryClient;
  session: string;
  /** This page asked; otherwise it found the answer being written. */
  asked: boolean;
  aborter: AbortController;
  /** The user ended the answer. */
  stopped: boolean;
  /** The page is gone: the gateway goes on alone as soon as it has the question. */
  left: boolean;
};

type Connect = (options: { signal: AbortSignal; onBytes: () => void }) => ReturnType<typeof stream>;
type Outcome = { end: End } | { none: true } | { refused: ApiError } | { lost: unknown };

const readings = new Map<string, Reading>();

/** Has the gateway answer, and shows the answer while it arrives. The gateway stores it, however it ends. */
export async function ask(client: QueryClient, asked: Asked): Promise<void> {
  const { session, parent, continues, model, request } = asked;
  // A second click comes too late: the gateway writes one answer in a chat at a time.
  if (readings.has(session)) return;
  const known = knownChat(client, session)?.messages.at(-1)?.id ?? 0;
  const startedAt = performance.now();
  const identity = { session, parent, continues, model, startedAt, known, requestId: null };
  setRunning({ ...nothing(), ...identity, state: "asking" });
  const body = { request, parent, continues };
  await run(client, session, (options) =>
    stream("answerInChat", { path: { id: session }, body, ...options }),
  );
}

const following =
  (session: string): Connect =>
  (options) =>
    stream("followChatAnswer", { path: { id: session }, ...options });

/** Shows an answer that the gateway is writing already: after a reload, or in a second tab. */
export async function follow(client: QueryClient, session: string): Promise<void> {
  const state = runningOf(session)?.state;
  if (readings.has(session) || state === "unsaved") return;
  // What is known of the chat may be older than a refusal: that stays until there is an answer.
  if (state !== "failed") dropRunning(session);
  await run(client, session);
}

/** Ends an answer; what came stays. */
export async function stopAnswer(session: string): Promise<void> {
  const reading = readings.get(session);
  if (reading) reading.stopped = true;
  try {
    await stopChatAnswer(session);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
    // The gateway does not have the question yet, so nobody writes.
    if (runningOf(session)?.state === "asking") reading?.aborter.abort();
  }
}

/** Stops to read an answer that nobody looks at any more: it goes on at the gateway, and takes no connection of this browser. */
export function leaveAnswer(session: string): void {
  const reading = readings.get(session);
  if (!reading) return;
  if (runningOf(session)?.state === "asking") reading.left = true;
  else reading.aborter.abort();
}

/** Takes `leaveAnswer` back. */
export function stayWithAnswer(session: string): void {
  const reading = readings.get(session);
  if (reading) reading.left = false;
}

async function run(client: QueryClient, session: string, first?: Connect): Promise<void> {
  const aborter = new AbortController();
  const reading: Reading = {
    client,
    session,
    asked: first !== undefined,
    aborter,
    stopped: false,
    left: false,
  };
  readings.set(session, reading);
  try {
    let connect = first ?? following(session);
    for (let wait = FIRST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
      const before = performance.now();
      const outcome = await connection(reading, connect);
      if (aborter.signal.aborted) break;
      if ("end" in outcome) return finish(reading, outcome.end);
      if ("refused" in outcome && connect === first) return refused(reading, outcome.refused);
      const over = "none" in outcome || ("refused" in outcome && outcome.refused.status === 404);
      if (over && (await settled(reading))) return;
      const running = runningOf(session);
      const error =
        "lost" in outcome ? outcome.lost : "refused" in outcome ? outcome.refused : running?.error;
      if (running && running.state !== "failed") setRunning({ ...running, state: "lost", error });
      // A connection that held for a while was a good one: the next is tried at once.
      if (performance.now() - before > LONGEST_WAIT) wait = FIRST_WAIT;
      await sleep(wait, aborter.signal);
      if (aborter.signal.aborted) break;
      connect = following(session);
    }
    dropRunning(session);
  } finally {
    if (readings.get(session) === reading) readings.delete(session);
  }
}

const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => [clearTimeout(timer), done()], { once: true });
  });

/** Reads one connection until the answer ends, or the connection does. */
async function connection(reading: Reading, connect: Connect): Promise<Outcome> {
  const { session, aborter } = reading;
  const aborted = new AbortController();
  const abort = () => aborted.abort();
  aborter.signal.addEventListener("abort", abort, { once: true });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(abort, SILENT_TOO_LONG);
  };
  let written = nothing();
  let begun = false;
  // What was there before stays until the first delta, which has all of it again.
  const show = () => {
    const running = runningOf(session);
    if (running?.state === "writing" && written.tokens > 0) setRunning({ ...running, ...written });
  };
  const { wake, end } = pace(show);
  try {
    for await (const { event, data } of connect({ signal: aborted.signal, onBytes: heard })) {
      if (event === "begin") {
        begun = true;
        begin(reading, JSON.parse(data) as Begin);
        written = nothing();
      } else if (event === "delta") {
        take(written, JSON.parse(data) as Delta);
        wake();
      } else if (event === "end") return { end: JSON.parse(data) as End };
    }
    return begun ? { lost: new NetworkError("the answer broke off") } : { none: true };
  } catch (error) {
    return error instanceof ApiError ? { refused: error } : { lost: error };
  } finally {
    clearTimeout(timer);
    aborter.signal.removeEventListener("abort", abort);
    end();
    show();
  }
}

function begin(reading: Reading, { parent, continues, model, started_at, request_id }: Begin): void {
  const { client, session, aborter } = reading;
  const before = runningOf(session);
  const messages = knownChat(client, session)?.messages ?? [];
  if (before && (before.state === "asking" || before.requestId === request_id))
    setRunning({ ...before, state: "writing", error: undefined, requestId: request_id });
  else
    setRunning({
      ...nothing(),
      session,
      parent,
      continues,
      model,
      startedAt: performance.now() - Math.max(0, Date.now() - started_at),
      known: messages.at(-1)?.id ?? 0,
      requestId: request_id,
      state: "writing",
    });
  setAnswering(client, session, true);
  // The question may come from another tab.
  if (parent !== 0 && messages.every((it) => it.id !== parent)) void refreshChat(client, session);
  if (reading.left) aborter.abort();
}

/** The gateway has ended the answer, and says what it stored. */
function finish({ client, session }: Reading, end: End): void {
  const running = runningOf(session);
  const error = errorOfEnd(end, running?.requestId ?? null);
  putMessages(client, session, end.messages);
  setAnswering(client, session, false);
  if (!running) return;
  if (end.content !== null) {
    // The gateway may have stored the first parts of a very long answer. The rest follows the last of these.
    const stored = end.messages.at(-1);
    const rest = stored ? { ...running, parent: stored.id, continues: true, known: stored.id } : running;
    setUnsaved(rest, "other", error, end.content);
  } else if (end.messages.length > 0) dropRunning(session);
  else if (error) setRunning({ ...running, state: "failed", error });
  else dropRunning(session);
}

/** The gateway or the engine refused the question. */
function refused({ client, session, stopped }: Reading, error: ApiError): void {
  const running = runningOf(session);
  setAnswering(client, session, false);
  if (running && !stopped) setRunning({ ...running, state: "failed", error });
  else dropRunning(session);
}

/**
 * The gateway writes no answer: it is stored by now, or it is lost with the gateway that wrote it. Returns whether that is clear.
 */
async function settled({ client, session, asked, aborter, stopped }: Reading): Promise<boolean> {
  try {
    for (const wait of [0, LOOK_AGAIN_MS]) {
      if (wait > 0) await sleep(wait, aborter.signal);
      const running = runningOf(session);
      const { answering, messages } = await readChat(client, session);
      if (answering) return false;
      if (running?.state === "failed") return true;
      if (running && !isStored(running, messages)) continue;
      dropRunning(session);
      return true;
    }
  } catch (error) {
    // The chat is deleted, or the gateway is away again.
    if (!(error instanceof ApiError && error.status === 404)) return false;
    dropRunning(session);
    return true;
  }
  const running = runningOf(session);
  if (!running) return true;
  if (running.text || running.reasoning || running.tools.length > 0)
    setUnsaved(running, "interrupted", undefined);
  else if (asked && !stopped) setRunning({ ...running, state: "failed" });
  else dropRunning(session);
  return true;
}
