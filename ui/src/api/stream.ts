import { send } from "./client";
import { isAbort, NetworkError } from "./errors";
import type { OperationId } from "./types";

/** One server-sent event. `id` is the last id that was seen so far. */
export type ServerEvent = { event: string; data: string; id: string };

/**
 * Takes the text of a stream of server-sent events in pieces, cut anywhere, and gives the events, as the WHATWG standard
 * (HTML, section 9.2.6) wants it.
 */
export class SseParser {
  /** Milliseconds after which the server wants to be asked again; `null` if it did not say. */
  retry: number | null = null;
  lastId = "";
  #rest = "";
  #begun = false;
  #event = "";
  #data: string[] = [];

  push(text: string): ServerEvent[] {
    this.#rest += text;
    if (!this.#begun && this.#rest !== "") {
      this.#begun = true;
      if (this.#rest.startsWith("\uFEFF")) this.#rest = this.#rest.slice(1);
    }
    const events: ServerEvent[] = [];
    let from = 0;
    for (;;) {
      const end = nextBreak(this.#rest, from);
      if (!end) break;
      const found = this.#line(this.#rest.slice(from, end.at));
      if (found) events.push(found);
      from = end.next;
    }
    this.#rest = this.#rest.slice(from);
    return events;
  }

  #line(line: string): ServerEvent | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.lastId = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }

  #dispatch(): ServerEvent | undefined {
    const [event, data] = [this.#event || "message", this.#data];
    this.#event = "";
    this.#data = [];
    return data.length > 0 ? { event, data: data.join("\n"), id: this.lastId } : undefined;
  }
}

/** Finds the next line break: LF, CR or CRLF. A CR at the very end waits, because its LF may come next. */
function nextBreak(text: string, from: number): { at: number; next: number } | undefined {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 10) return { at, next: at + 1 };
    if (code === 13) {
      if (at + 1 === text.length) return;
      return { at, next: text.charCodeAt(at + 1) === 10 ? at + 2 : at + 1 };
    }
  }
}

type StreamOptions = {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  signal: AbortSignal;
  headers?: Record<string, string>;
  quiet?: boolean;
  parser?: SseParser;
  /** Called whenever something arrives, comments too. */
  onBytes?: () => void;
};

/** Calls an operation that answers server-sent events, and yields each as it arrives. `signal` ends it. */
export async function* stream(id: OperationId, options: StreamOptions): AsyncGenerator<ServerEvent, void> {
  const { parser = new SseParser(), headers, onBytes, ...sent } = options;
  const response = await send(id, { ...sent, headers: { accept: "text/event-stream", ...headers } });
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes?.();
      yield* parser.push(value);
    }
  } catch (error) {
    if (isAbort(error) || options.signal.aborted) return;
    throw new NetworkError(String(error));
  } finally {
    await reader.cancel().catch(() => {
      // What has ended with an error can't be cancelled.
    });
  }
}
