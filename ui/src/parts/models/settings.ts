import type { Model, Schema } from "@/api/types";
import type { ModelField, Settings } from "@/data/model-files";

/** The settings that most people look at, in this order; the others are shown with "All". */
export const SIMPLE = [
  "max_model_len",
  "context_size",
  "max_num_seqs",
  "parallel_slots",
  "gpu_memory_utilization",
  "ngl",
  "quantization",
  "selected_gpus",
  "tensor_parallel_size",
  "device",
  "autostart",
  "restart_policy",
];

/** Which settings say where the model comes from: the first step of adding a model has chosen them. */
export const SOURCE = ["mode", "repo_id", "local_path"];

/** Operators put tokens into the environment of an engine: what is kept in a browser is kept without it. */
const SECRETS = ["extra_env"];

const filtered = (settings: Settings, keep: (name: string) => boolean): Settings =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => keep(name)));

/** Returns settings without those that may hold secrets. */
export const withoutSecrets = (settings: Settings): Settings =>
  filtered(settings, (it) => !SECRETS.includes(it));

/** Returns only those settings that may hold secrets. */
export const secretsOf = (settings: Settings): Settings => filtered(settings, (it) => SECRETS.includes(it));

/** Returns the fields that a model of this engine has. */
export function fieldsOf(fields: ModelField[], engine: string): ModelField[] {
  return fields.filter((it) => it.engine_type === null || it.engine_type === engine);
}

/** Returns the value that counts where nothing is set. */
export function defaultOf(field: ModelField, task: string): unknown {
  return field.default_task === null || field.default_task === task ? field.default : null;
}

/** Returns what is set in a record, without the defaults that it shows. */
export function settingsOf(model: Model, fields: ModelField[]): Settings {
  const all = model as unknown as Settings;
  const unset = new Set(model.defaulted);
  const set: Settings = {};
  for (const { name } of fieldsOf(fields, model.engine_type)) {
    const value = all[name];
    if (!unset.has(name) && value !== null && value !== undefined) set[name] = value;
  }
  return set;
}

export const same = (a: unknown, b: unknown): boolean =>
  JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** One setting that is not what it was. `undefined` means that it is not set. */
export type Change = { name: string; from: unknown; to: unknown };

/** Returns what differs between two sets of settings, by name. */
export function changesBetween(before: Settings, after: Settings): Change[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names]
    .filter((it) => !same(before[it], after[it]))
    .toSorted()
    .map((name) => ({ name, from: before[name], to: after[name] }));
}

/** Returns the body of a change request: what is not set any more is `null`. */
export function bodyOf(changes: Change[]): Settings {
  return Object.fromEntries(changes.map((it) => [it.name, it.to ?? null]));
}

/** Returns settings with some changed; `null` and `undefined` unset one. */
export function withChanges(settings: Settings, changes: Settings): Settings {
  const next = { ...settings, ...changes };
  for (const [name, value] of Object.entries(next))
    if (value === null || value === undefined) delete next[name];
  return next;
}

/** Returns a value as people read it. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.join(", ");
  return JSON.stringify(value);
}

/** The context and the number of requests at the same time that a command gives an engine; `null`: the engine chooses. */
export type Capacity = { context: number | null; users: number | null; shared: boolean };

/** Reads them from the command that a start would run: so defaults and `extra_args` are included. */
export function capacityOf(command: string[]): Capacity {
  const after = (...flags: string[]): number | null => {
    const at = command.findLastIndex((it) => flags.some((flag) => it === flag || it.startsWith(`${flag}=`)));
    const word = command[at] ?? "";
    const value = Number(word.includes("=") ? word.slice(word.indexOf("=") + 1) : command[at + 1]);
    return at >= 0 && Number.isFinite(value) && value > 0 ? value : null;
  };
  const context = after("--ctx-size", "-c");
  const vllm = after("--max-model-len");
  if (context !== null || command.includes("--ctx-size"))
    return { context, users: after("--parallel", "-np"), shared: true };
  return { context: vllm, users: after("--max-num-seqs"), shared: false };
}

/** The context of a model in tokens, with what it comes from. `each`: what a request gets; `null` is what is not known. */
export type Context = {
  each: number | null;
  users: number | null;
  chosen: number | null;
  trained: number | null;
  fits: number | null;
};

/** Reads it from a dry run: a request gets what is chosen for it, and no more than the model was trained for. */
export function contextOf(preview: Pick<Schema<"DryRun">, "command" | "vram_estimate">): Context {
  const { context: chosen, users, shared } = capacityOf(preview.command);
  const trained = preview.vram_estimate?.trained_for ?? null;
  const fits = preview.vram_estimate?.max_context_that_fits ?? null;
  const whole = chosen ?? trained;
  // llama.cpp shares its context between its slots; vLLM's sequences have one each, as far as the cache goes.
  const own = whole !== null && users !== null && shared ? Math.floor(whole / users) : whole;
  const each = own === null ? null : Math.min(own, trained ?? own);
  return { each, users: shared ? users : null, chosen, trained, fits };
}

/** Returns the tuned value of a field, as the gateway's profile sets it: a context is no longer than the model's. */
export function tunedOf(field: ModelField, settings: Settings, trained: number | null): unknown {
  const value = field.tuned?.value;
  if (field.name !== "context_size" || trained === null || typeof value !== "number") return value;
  const slots = typeof settings.parallel_slots === "number" ? Math.max(1, settings.parallel_slots) : 1;
  const most = Math.min(value, trained * slots);
  return typeof field.default === "number" && most <= field.default ? undefined : most;
}

/** One word of a command, and whether the command before did not have it there. */
export type Word = { text: string; changed: boolean };

const isFlag = (word: string) => /^--?[a-z]/i.test(word);

/** Joins a command to one line per flag, and marks the flags that are new or have other values than before. */
export function commandLines(command: string[], before: string[] | null): Word[] {
  const group = (words: string[]): string[] => {
    const lines: string[] = [];
    for (const word of words) {
      const quoted = /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
      if (lines.length === 0 || isFlag(word)) lines.push(quoted);
      else lines[lines.length - 1] += ` ${quoted}`;
    }
    return lines;
  };
  const old = before && new Set(group(before));
  return group(command).map((text) => ({ text, changed: old !== null && !old.has(text) }));
}
