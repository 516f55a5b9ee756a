// A gateway for the tests of answers, in place of `fetch`.
import type { Chat, ChatMessage } from "@/data/chats";
import type { Facts } from "./tree";

export const ID = "01900000-0000-7000-8000-000000000001";
export const COMPLETIONS = `/v1/chat/sessions/${ID}/completions`;

const message = (
  id: number,
  role: "user" | "assistant",
  content: string,
  metrics: Facts = {},
): ChatMessage => ({
  id,
  role,
  content,
  metrics,
  timestamp: id,
});
export const QUESTION = message(1, "user", "Why?", { parent: 0 });
export const ANSWER = message(2, "assistant", "So.", { parent: 1, ending: "stop" });

type Reply = (signal?: AbortSignal | null) => Response | Promise<Response>;

/** A gateway with one chat. The test gives it the answers to the requests, in their order. */
export function gateway() {
  const chat: Chat = {
    id: ID,
    title: "Why?",
    model_name: "m",
    engine_type: null,
    constraints: {},
    created_at: 0,
    updated_at: 0,
    answering: false,
    pinned: false,
    messages: [QUESTION],
  };
  const told = new Map<string, Reply[]>();
  const asked: { line: string; body: unknown }[] = [];
  const fetch = async (url: string, { method, body, signal }: RequestInit): Promise<Response> => {
    const line = `${method} ${url.split("?")[0]}`;
    asked.push({ line, body: body ? JSON.parse(String(body)) : undefined });
    const answer = told.get(line)?.shift();
    if (answer)
      return Promise.race([
        answer(signal),
        new Promise<never>((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason))),
      ]);
    if (line === `GET /v1/chat/sessions/${ID}`) return Response.json(chat);
    return Response.json([]);
  };
  return {
    chat,
    fetch,
    lines: () => asked.map((it) => it.line),
    bodyOf: (line: string) => asked.find((it) => it.line === line)?.body,
    next: (line: string, ...answers: Reply[]) => told.set(line, [...(told.get(line) ?? []), ...answers]),
  };
}

export const refusal = (status: number, code: string) => () =>
  Response.json(
    { error: { code, message: `it is ${code}`, type: "x", param: null }, request_id: "r" },
    { status },
  );
/** What the gateway says if it writes no answer in the chat. */
export const nothing = () => new Response(null, { status: 204 });
export const gone = () => {
  throw new TypeError("connection refused");
};

/** A stream of events that the test writes into. */
export function answering(begin: object = {}) {
  let to: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (it) => {
      to = it;
    },
  });
  const write = (event: string, data: object) =>
    to?.enqueue(new TextEncoder().encode(`: beat\n\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
  write("begin", {
    parent: 1,
    continues: false,
    model: "m",
    started_at: Date.now(),
    request_id: "r",
    ...begin,
  });
  return {
    open: (signal?: AbortSignal | null) => {
      signal?.addEventListener("abort", () => to?.error(signal.reason));
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    },
    delta: (delta: object) => write("delta", { tokens: 1, ...delta }),
    end: (end: object = {}) => {
      write("end", { messages: [], error: null, content: null, ...end });
      to?.close();
    },
    breakOff: () => to?.error(new TypeError("network error")),
  };
}
