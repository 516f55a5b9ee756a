import type { Constraints } from "@/data/inference";
import { fieldsOf, type Parameters } from "./parameters";
import { splitReasoning, type Turn } from "./tree";

export type Pictures = ReadonlyMap<number, string[]>;

type Made = {
  model: string;
  turns: readonly Pick<Turn, "id" | "role" | "content">[];
  parameters: Parameters;
  constraints: Constraints | undefined;
  pictures?: Pictures;
  /** The last answer is not finished: the model shall go on with it. */
  goOn?: boolean;
};

function contentOf(text: string, pictures: string[] | undefined): unknown {
  if (!pictures?.length) return text;
  return [
    ...pictures.map((url) => ({ type: "image_url", image_url: { url } })),
    ...(text ? [{ type: "text", text }] : []),
  ];
}

/** The body of a request for the next answer of a conversation. */
export function requestOf({
  model,
  turns,
  parameters,
  constraints,
  pictures,
  goOn,
}: Made): Record<string, unknown> {
  const system = constraints?.supports_system_prompt === false ? "" : parameters.system.trim();
  const messages = [
    ...(system ? [{ role: "system", content: system }] : []),
    ...turns.map(({ id, role, content }) =>
      role === "user"
        ? { role, content: contentOf(content, pictures?.get(id)) }
        : { role, content: splitReasoning(content).text },
    ),
  ];
  return {
    model,
    messages,
    ...fieldsOf(parameters, constraints),
    // llama.cpp goes on by itself if an answer is last; vLLM wants to be told.
    ...(goOn && constraints?.engine_type === "vllm"
      ? { continue_final_message: true, add_generation_prompt: false }
      : {}),
  };
}
