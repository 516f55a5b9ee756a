import { ApiError } from "@/api/errors";
import type { ServerEvent } from "@/api/stream";
import type { Ending, ToolCall } from "./tree";

/** What an answer consists of so far. */
export type Written = {
  reasoning: string;
  text: string;
  tools: ToolCall[];
  /** Pieces that brought text: about one for each token. */
  pieces: number;
  promptTokens: number | null;
  completionTokens: number | null;
  ending: Ending | null;
};

export const nothing = (): Written => ({
  reasoning: "",
  text: "",
  tools: [],
  pieces: 0,
  promptTokens: null,
  completionTokens: null,
  ending: null,
});

type Chunk = {
  choices?: {
    delta?: {
      content?: string | null;
      reasoning?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { index?: number; function?: { name?: string; arguments?: string } }[] | null;
    };
    finish_reason?: string | null;
  }[];
  usage?: { prompt_tokens?: number; completion_tokens?: number } | null;
  error?: { code?: unknown; message?: string; type?: string; param?: string | null };
  request_id?: string;
};

const ENDINGS: readonly Ending[] = ["stop", "length", "tool_calls", "content_filter"];

/**
 * Adds one event of a chat's stream to what is written. Returns whether the stream says that it is complete. Throws the
 * engine's error if the event is one.
 */
export function take(written: Written, event: ServerEvent): boolean {
  if (event.data === "[DONE]") return true;
  const chunk = JSON.parse(event.data) as Chunk;
  if (chunk.error) {
    const { code, message, param } = chunk.error;
    throw new ApiError(502, {
      code: typeof code === "string" ? code : (chunk.error.type ?? "engine"),
      message,
      param,
      requestId: chunk.request_id ?? null,
    });
  }
  if (chunk.usage) {
    written.promptTokens = chunk.usage.prompt_tokens ?? written.promptTokens;
    written.completionTokens = chunk.usage.completion_tokens ?? written.completionTokens;
  }
  const choice = chunk.choices?.[0];
  const delta = choice?.delta;
  const thought = delta?.reasoning ?? delta?.reasoning_content;
  if (thought) written.reasoning += thought;
  if (delta?.content) written.text += delta.content;
  for (const call of delta?.tool_calls ?? []) {
    const at = call.index ?? written.tools.length;
    const old = written.tools[at] ?? { name: "", arguments: "" };
    written.tools[at] = {
      name: old.name + (call.function?.name ?? ""),
      arguments: old.arguments + (call.function?.arguments ?? ""),
    };
  }
  if (thought || delta?.content || delta?.tool_calls?.length) written.pieces += 1;
  if (choice?.finish_reason) written.ending = ENDINGS.find((it) => it === choice.finish_reason) ?? "other";
  return false;
}
