import type { Constraints } from "@/data/inference";

/** What is sent with every question. What is empty is left to the model. */
export type Parameters = {
  system: string;
  temperature: number | null;
  top_p: number | null;
  top_k: number | null;
  min_p: number | null;
  max_tokens: number | null;
  presence_penalty: number | null;
  frequency_penalty: number | null;
  repetition_penalty: number | null;
  seed: number | null;
  /** One a line. */
  stop: string;
  json: boolean;
  /** JSON: the functions that the model may call. */
  tools: string;
};

export const DEFAULTS: Parameters = {
  system: "",
  temperature: null,
  top_p: null,
  top_k: null,
  min_p: null,
  max_tokens: null,
  presence_penalty: null,
  frequency_penalty: null,
  repetition_penalty: null,
  seed: null,
  stop: "",
  json: false,
  tools: "",
};

export type NumberName = {
  [K in keyof Parameters]: Parameters[K] extends number | null ? K : never;
}[keyof Parameters];

export type NumberField = {
  name: NumberName;
  min: number;
  max?: number;
  step: number;
  integer?: boolean;
  /** What the record of the model puts into requests that don't say it. */
  fallback?: number;
};

type Engine = Constraints["engine_type"];

/** The engine's own word for a parameter. */
const wordOf = (name: NumberName, engine: Engine) =>
  name === "repetition_penalty" && engine === "llamacpp" ? "repeat_penalty" : name;

/** The numbers that a model takes, with what limits them. Those that only some engines know are there for these only. */
export function numberFields(constraints: Constraints | undefined): NumberField[] {
  const engine = constraints?.engine_type ?? null;
  const context = constraints?.max_model_len ?? undefined;
  const common: NumberField[] = [
    { name: "temperature", min: 0, max: 2, step: 0.1 },
    {
      name: "max_tokens",
      min: 1,
      max: context,
      step: 64,
      integer: true,
      fallback: constraints?.max_tokens_default,
    },
    { name: "top_p", min: 0, max: 1, step: 0.05 },
    { name: "presence_penalty", min: -2, max: 2, step: 0.1 },
    { name: "frequency_penalty", min: -2, max: 2, step: 0.1 },
    { name: "seed", min: 0, step: 1, integer: true },
  ];
  const own: NumberField[] = [
    { name: "top_k", min: engine === "vllm" ? -1 : 0, step: 1, integer: true },
    { name: "min_p", min: 0, max: 1, step: 0.01 },
    { name: "repetition_penalty", min: 0.01, max: 2, step: 0.05 },
  ];
  return [...common, ...(engine ? own : [])].map((field) => {
    const kept = constraints?.request_defaults?.[wordOf(field.name, engine)];
    return typeof kept === "number" ? { ...field, fallback: kept } : field;
  });
}

/** Reads the functions that the model may call. Throws a `SyntaxError`, or an `Error` if it is not a list. */
export function toolsOf(text: string): unknown[] | undefined {
  if (text.trim() === "") return undefined;
  const tools: unknown = JSON.parse(text);
  if (!Array.isArray(tools)) throw new Error("not a list");
  return tools;
}

/** How many parameters are set. */
export const countSet = (parameters: Parameters): number =>
  Object.entries(parameters).filter(([, it]) => it !== null && it !== "" && it !== false).length;

/** The fields of a request that the parameters make, all but the messages. */
export function fieldsOf(
  parameters: Parameters,
  constraints: Constraints | undefined,
): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const { name } of numberFields(constraints)) {
    const value = parameters[name];
    if (value !== null) fields[wordOf(name, constraints?.engine_type ?? null)] = value;
  }
  // Without a limit some engines fill their whole context.
  fields.max_tokens ??= constraints?.max_tokens_default;
  const stop = parameters.stop.split("\n").filter((it) => it !== "");
  if (stop.length > 0) fields.stop = stop;
  if (parameters.json) fields.response_format = { type: "json_object" };
  const tools = toolsOf(parameters.tools);
  if (tools && tools.length > 0) fields.tools = tools;
  return fields;
}
