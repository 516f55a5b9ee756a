import { ApiError } from "@/api/errors";
import { capitalised } from "./sentence";

/** The parts of an error that belong to fields, and what is left for the form as a whole. */
export type FormErrors = { of: (field: string) => string | undefined; rest: unknown };

/**
 * Sorts a server's error by the form's fields. `lora_adapters[0].path` belongs to `lora_adapters` if that is what the form has.
 * `rest` is the error itself if any of it found no field, else `undefined`: show it with `ErrorNote`.
 */
export function formErrors(error: unknown, fields: readonly string[]): FormErrors {
  if (!(error instanceof ApiError) || error.fields.length === 0)
    return { of: () => undefined, rest: error ?? undefined };
  const placed = new Map<string, string>();
  let left = false;
  for (const { param, message } of error.fields) {
    const field = fields.includes(param) ? param : param.split(/[.[]/)[0];
    if (field === undefined || !fields.includes(field)) left = true;
    else if (!placed.has(field)) placed.set(field, capitalised(message));
  }
  return { of: (field) => placed.get(field), rest: left ? error : undefined };
}
