import { send } from "@/api/client";
import { ApiError, isAbort, NetworkError } from "@/api/errors";
import { SseParser } from "@/api/stream";
import { nothing, take, type Written } from "./delta";
import { dropAnswer, keepAnswer, keepAnswerNow, type Unsaved } from "./kept";
import { pace } from "./pace";
import { dropRunning, type Running, runningOf, setRunning } from "./running";
import { type Ending, type Facts, joinReasoning, partsOf } from "./tree";

/** Adds a message to the chat, and returns its id. */
export type Keep = (role: "user" | "assistant", content: string, facts: Facts) => Promise<number>;

export type Asked = {
  session: string;
  parent: number;
  continues: boolean;
  model: string;
  body: Record<string, unknown>;
};

const KEEP_EVERY_MS = 250;
const LEAVING_MS = 2000;

/** Adds a text that may be longer than one message of the gateway. Returns the id of its last part. */
export async function keepAll(
  keep: Keep,
  role: "user" | "assistant",
  content: string,
  facts: Facts,
): Promise<number> {
  let parent = facts.parent ?? 0;
  for (const [at, part] of partsOf(content).entries())
    parent = await keep(role, part, { ...facts, parent, continues: at > 0 || facts.continues });
  return parent;
}

// The gateway takes 8 KiB of facts.
const short = (text: string, most = 4000) => (text.length > most ? `${text.slice(0, most)}…` : text);

function factsOf(running: Running, written: Written, ending: Ending, error: unknown): Facts {
  const ended = performance.now();
  const { startedAt, firstAt, reasonedUntil } = running;
  const tokens = written.completionTokens ?? written.pieces;
  const writing = firstAt === null ? 0 : ended - firstAt;
  return {
    parent: running.parent,
    continues: running.continues || undefined,
    model: running.model,
    ttft_ms: firstAt === null ? undefined : Math.round(firstAt - startedAt),
    total_ms: Math.round(ended - startedAt),
    reasoning_ms:
      written.reasoning && firstAt !== null ? Math.round((reasonedUntil ?? ended) - firstAt) : undefined,
    prompt_tokens: written.promptTokens ?? undefined,
    completion_tokens: tokens,
    estimated: written.completionTokens === null || undefined,
    // The first token's time is the TTFT; the pace is that of all others.
    tokens_per_second:
      tokens > 1 && writing > 0 ? Math.round(((tokens - 1) / writing) * 1e5) / 100 : undefined,
    ending,
    error: error instanceof Error ? short(error.message, 1000) : undefined,
    request_id: running.requestId ?? undefined,
    tool_calls:
      written.tools.length > 0
        ? written.tools.slice(0, 8).map((it) => ({ name: it.name, arguments: short(it.arguments, 600) }))
        : undefined,
  };
}

/** Asks the model, shows the answer while it arrives, and has the gateway keep it, however it ended. */
export async function answer(asked: Asked, keep: Keep): Promise<void> {
  const { session, parent, continues, model } = asked;
  const aborter = new AbortController();
  const written = nothing();
  let running: Running = {
    session,
    parent,
    continues,
    model,
    reasoning: "",
    text: "",
    tools: [],
    startedAt: performance.now(),
    firstAt: null,
    reasonedUntil: null,
    tokens: 0,
    state: "writing",
  };
  setRunning(running, () => aborter.abort());
  const show = () => {
    const { reasoning, text, pieces } = written;
    running = { ...running, reasoning, text, tools: [...written.tools], tokens: pieces };
    setRunning(running);
  };
  const unsaved = (ending: Ending = "interrupted"): Unsaved => ({
    session,
    parent,
    content: joinReasoning(written.reasoning, written.text),
    facts: factsOf(running, written, ending, undefined),
    at: Date.now(),
  });
  const { wake, end } = pace(show);
  const beat = setInterval(() => void keepAnswer(unsaved()), KEEP_EVERY_MS);
  const leave = () => keepAnswerNow(unsaved());
  let left = Number.NEGATIVE_INFINITY;
  const leaving = () => {
    left = performance.now();
    leave();
  };
  addEventListener("beforeunload", leaving);
  addEventListener("pagehide", leave);
  let error: unknown;
  let complete = false;
  try {
    const response = await send("createChatCompletion", { body: asked.body, signal: aborter.signal });
    running = { ...running, requestId: response.headers.get("x-request-id") };
    complete = await readAll(response, written, () => {
      const now = performance.now();
      if (running.firstAt === null && written.pieces > 0) running = { ...running, firstAt: now };
      if (running.reasonedUntil === null && written.reasoning && written.text)
        running = { ...running, reasonedUntil: now };
      wake();
    });
    if (!complete && written.ending === null) error = new NetworkError("the answer broke off");
  } catch (caught) {
    if (!isAbort(caught) && !aborter.signal.aborted) error = caught;
    // A page that goes away breaks its requests off first: then nothing has failed, and the next page goes on from here.
    if (performance.now() - left < LEAVING_MS) {
      leave();
      await new Promise((done) => setTimeout(done, LEAVING_MS));
    }
  }
  end();
  clearInterval(beat);
  if (error instanceof ApiError && error.requestId === null && running.requestId)
    error = new ApiError(error.status, { ...error, message: error.message, requestId: running.requestId });
  const ending: Ending = error ? "error" : aborter.signal.aborted ? "stopped" : (written.ending ?? "other");
  show();
  const facts = factsOf(running, written, ending, error);
  running = { ...running, error, facts };
  try {
    await settle(running, written, keep);
  } finally {
    removeEventListener("beforeunload", leaving);
    removeEventListener("pagehide", leave);
  }
}

/** Has the gateway keep what came. If nothing came there is nothing to keep, and the error stands in its place. */
async function settle(running: Running, written: Written, keep: Keep): Promise<void> {
  const { session, facts = {} } = running;
  const content = joinReasoning(written.reasoning, written.text);
  if (content === "" && written.tools.length === 0) {
    await dropAnswer(session);
    if (running.error) setRunning({ ...running, state: "failed" });
    else dropRunning(session);
    return;
  }
  setRunning({ ...running, state: "saving" });
  try {
    await keepAll(keep, "assistant", content, facts);
    await dropAnswer(session);
    dropRunning(session);
  } catch (error) {
    await keepAnswer({ session, parent: running.parent, content, facts, at: Date.now() });
    setRunning({ ...running, state: "unsaved", error });
  }
}

/** Tries again to have the gateway keep an answer. */
export async function keepAgain(session: string, keep: Keep): Promise<void> {
  const running = runningOf(session);
  if (running?.state !== "unsaved") return;
  const { reasoning, text, tools } = running;
  await settle({ ...running, error: undefined }, { ...nothing(), reasoning, text, tools }, keep);
}

/** Reads the stream, or the one answer of an engine that doesn't stream. Returns whether it says that it is complete. */
async function readAll(response: Response, written: Written, onEvent: () => void): Promise<boolean> {
  if (!response.body) return false;
  const parser = new SseParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return false;
      for (const event of parser.push(value)) if (take(written, event)) return true;
      onEvent();
    }
  } finally {
    onEvent();
    await reader.cancel().catch(() => {});
  }
}
