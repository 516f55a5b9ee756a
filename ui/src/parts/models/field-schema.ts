import type { ModelField } from "@/data/model-files";

/** How a setting is written. */
export type Kind =
  | "choice"
  | "switch"
  | "integer"
  | "number"
  | "text"
  | "long"
  | "integers"
  | "lines"
  | "pairs"
  | "json";

type Schema = {
  type?: string | string[];
  enum?: unknown[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  items?: { type?: string };
  additionalProperties?: unknown;
  "x-multiline"?: boolean;
};

const schemaOf = (field: ModelField): Schema => field.schema as Schema;

/** Returns the input that suits the JSON Schema of a setting. */
export function kindOf(field: ModelField): Kind {
  const schema = schemaOf(field);
  const type = Array.isArray(schema.type) ? schema.type.find((it) => it !== "null") : schema.type;
  if (schema.enum) return "choice";
  switch (type) {
    case "boolean":
      return "switch";
    case "integer":
      return "integer";
    case "number":
      return "number";
    case "array":
      return schema.items?.type === "integer" ? "integers" : "lines";
    case "object": {
      const values = schema.additionalProperties;
      const texts =
        typeof values === "object" && values !== null && "type" in values && values.type === "string";
      return texts ? "pairs" : "json";
    }
    default:
      return (schema.maxLength ?? 0) > 20_000 ? "long" : "text";
  }
}

/** Returns the values that a setting may have, as they are sent. */
export function choicesOf(field: ModelField): unknown[] {
  return (schemaOf(field).enum ?? []).filter((it) => it !== null);
}

/** Returns the least and the largest value. */
export function boundsOf(field: ModelField): { min?: number; max?: number } {
  const { minimum: min, maximum: max } = schemaOf(field);
  return { min, max };
}

/** Returns what is written for a value of several lines. */
export function toText(kind: Kind, value: unknown): string {
  if (value === null || value === undefined) return "";
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (kind === "integers" && Array.isArray(value)) return value.join(", ");
  if (kind === "pairs" && typeof value === "object")
    return Object.entries(value)
      .map(([name, it]) => `${name}=${it}`)
      .join("\n");
  return kind === "json" ? JSON.stringify(value, null, 2) : String(value);
}

/** Returns the value of a text; `undefined` if it is empty, and `bad` if it can't be read. */
export function fromText(kind: Kind, text: string): { value: unknown } | "bad" {
  if (text.trim() === "") return { value: undefined };
  if (kind === "lines") return { value: text.split("\n").filter((it) => it.trim() !== "") };
  if (kind === "integers") {
    const numbers = text
      .split(/[\s,;]+/)
      .filter(Boolean)
      .map(Number);
    return numbers.every((it) => Number.isInteger(it)) ? { value: numbers } : "bad";
  }
  if (kind === "pairs") {
    const lines = text.split("\n").filter((it) => it.trim() !== "");
    if (lines.some((it) => it.indexOf("=") < 1)) return "bad";
    return {
      value: Object.fromEntries(
        lines.map((it) => [it.slice(0, it.indexOf("=")), it.slice(it.indexOf("=") + 1)]),
      ),
    };
  }
  if (kind !== "json") return { value: text };
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { value } : "bad";
  } catch {
    return "bad";
  }
}
