import { ApiError } from "@/api/errors";
import type { ChatMessage } from "@/data/chats";
import type { ToolCall } from "./tree";

// The events of an answer that the gateway writes: `begin` first on every connection, then `delta`, and `end` last.

export type Begin = {
  /** The message that it follows; 0: none. */
  parent: number;
  /** It is the rest of the message that it follows. */
  continues: boolean;
  model: string;
  /** Milliseconds since 1970, by the gateway's clock. */
  started_at: number;
  request_id: string;
};

/** What is to be appended to a tool call, which begins with its first part. */
export type ToolPart = { index: number; name?: string; arguments?: string };

export type Delta = {
  /** What is to be appended. */
  reasoning?: string;
  text?: string;
  tool_calls?: ToolPart[];
  /** Pieces so far: about one for each token. */
  tokens: number;
  /** From the start to the first piece. */
  ttft_ms?: number;
  /** It is there once the reasoning is over. */
  reasoning_ms?: number;
};

export type End = {
  /** What was stored of it: a very long answer is several messages. */
  messages: ChatMessage[];
  error: { message?: string; code?: string | null; param?: string | null } | null;
  /** The whole answer if it could not be stored. */
  content: string | null;
};

/** What an answer consists of so far. */
export type Written = {
  reasoning: string;
  text: string;
  tools: ToolCall[];
  tokens: number;
  ttft: number | null;
  reasoningMs: number | null;
};

export const nothing = (): Written => ({
  reasoning: "",
  text: "",
  tools: [],
  tokens: 0,
  ttft: null,
  reasoningMs: null,
});

/** Adds one `delta` to what is written. */
export function take(written: Written, delta: Delta): void {
  if (delta.reasoning) written.reasoning += delta.reasoning;
  if (delta.text) written.text += delta.text;
  if (delta.tool_calls) written.tools = joined(written.tools, delta.tool_calls);
  written.tokens = delta.tokens;
  written.ttft = delta.ttft_ms ?? written.ttft;
  written.reasoningMs = delta.reasoning_ms ?? written.reasoningMs;
}

/** Returns the calls with what has come of them: new objects for those that have changed. */
function joined(tools: ToolCall[], parts: ToolPart[]): ToolCall[] {
  const all = [...tools];
  for (const { index, name = "", arguments: more = "" } of parts) {
    const before = all[index] ?? { name: "", arguments: "" };
    all[index] = { name: before.name + name, arguments: before.arguments + more };
  }
  return Array.from(all, (it) => it ?? { name: "", arguments: "" });
}

/** Returns the error of an `end`. */
export function errorOfEnd({ error }: End, requestId: string | null): ApiError | undefined {
  return error
    ? new ApiError(502, {
        code: error.code ?? undefined,
        message: error.message,
        param: error.param,
        requestId,
      })
    : undefined;
}
