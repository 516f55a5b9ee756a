import type { Model, Upstream } from "@/api/types";
import type { RegistryEntry } from "@/data/registry";

/** One row of the list: a model that Gantry runs, or an engine that somebody else runs. */
export type Row =
  | { kind: "model"; key: string; name: string; word: string; model: Model }
  | { kind: "entry"; key: string; name: string; word: string; entry: RegistryEntry; probes: Upstream[] };

/** The states that can be filtered by, those that want attention first. */
export const STATES = [
  "failed",
  "unhealthy",
  "starting",
  "loading",
  "stopping",
  "running",
  "healthy",
  "stopped",
] as const;
export type RowState = (typeof STATES)[number];

/** Makes the rows of the list. */
export function rowsOf(models: Model[], entries: RegistryEntry[], upstreams: Upstream[]): Row[] {
  const own = models.map((model): Row => {
    const words = [model.served_name, model.name, model.local_path, model.repo_id, model.engine_type];
    return {
      kind: "model",
      key: String(model.id),
      name: model.served_name,
      word: words.join("\n").toLowerCase(),
      model,
    };
  });
  const elsewhere = entries.map((entry): Row => {
    const probes = upstreams.filter((it) => it.source === "manual" && it.served_name === entry.served_name);
    const words = [entry.served_name, entry.upstream_model, ...entry.urls];
    const key = `entry ${entry.served_name}`;
    return {
      kind: "entry",
      key,
      name: entry.served_name,
      word: words.join("\n").toLowerCase(),
      entry,
      probes,
    };
  });
  return [...own, ...elsewhere];
}

/** Returns the state of a row. */
export function stateOf(row: Row): RowState {
  if (row.kind === "model") return row.model.state;
  return row.entry.healthy ? "healthy" : "unhealthy";
}

const by: Record<string, (row: Row) => string | number> = {
  name: (row) => row.name.toLowerCase(),
  state: (row) => STATES.indexOf(stateOf(row)),
  engine: (row) => (row.kind === "model" ? row.model.engine_type : (row.entry.engine_type ?? "~")),
};

/** Returns the rows that match, in the order that the address says. */
export function pick(rows: Row[], { q, states, sort }: { q: string; states: string[]; sort: string }): Row[] {
  const word = q.trim().toLowerCase();
  const found = rows.filter(
    (it) => (word === "" || it.word.includes(word)) && (states.length === 0 || states.includes(stateOf(it))),
  );
  const value = by[sort.replace(/^-/, "")] ?? by.state;
  const sign = sort.startsWith("-") ? -1 : 1;
  return found.toSorted((a, b) => {
    const [first, second] = [value?.(a) ?? "", value?.(b) ?? ""];
    const order = first < second ? -1 : first > second ? 1 : 0;
    return order * sign || a.name.localeCompare(b.name, undefined, { numeric: true });
  });
}

const QUANT = /[.-]((?:UD-)?(?:I?Q\d\w*|F16|BF16|F32|MXFP4\w*))(?:-\d{5}-of-\d{5})?\.gguf$/i;

/** Returns the quantization that a record names: the setting, or for GGUF the word in the file's name. */
export function quantizationOf(model: Model): string | null {
  if (model.engine_type === "vllm") return model.quantization;
  return QUANT.exec(model.local_path ?? "")?.[1]?.toUpperCase() ?? null;
}

/** Returns the context that a record sets; `null`: the model's own. */
export function contextOf(model: Model): number | null {
  const set = model.engine_type === "vllm" ? model.max_model_len : model.context_size;
  return set === 0 ? null : set;
}
