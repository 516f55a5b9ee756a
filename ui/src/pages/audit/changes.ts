import type { AuditRow } from "@/data/audit";

/** One field that an action touched; `undefined` where it was not there. */
export type Change = { field: string; before: unknown; after: unknown };

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function flat(of: Record<string, unknown> | null, path = ""): Map<string, unknown> {
  const all = new Map<string, unknown>();
  for (const [name, value] of Object.entries(of ?? {})) {
    if (isObject(value) && Object.keys(value).length > 0)
      for (const [inner, it] of flat(value, `${path}${name}.`)) all.set(inner, it);
    else all.set(`${path}${name}`, value);
  }
  return all;
}

/** Returns the fields of both sides that differ, nested ones by their path. */
export function changesOf({ before, after }: Pick<AuditRow, "before" | "after">): Change[] {
  const [old, now] = [flat(before), flat(after)];
  return [...new Set([...old.keys(), ...now.keys()])]
    .map((field) => ({ field, before: old.get(field), after: now.get(field) }))
    .filter((it) => JSON.stringify(it.before) !== JSON.stringify(it.after));
}

export type Chain = { links: number; broken: { seq: number; before: number } | null };

/** Checks that each row names the hash of the row before it, as far as both are in the list (newest first). */
export function checkChain(rows: Pick<AuditRow, "seq" | "hash" | "prev_hash">[]): Chain {
  let links = 0;
  for (const [index, row] of rows.entries()) {
    const before = rows[index + 1];
    if (!before || before.seq !== row.seq - 1) continue;
    if (before.hash !== row.prev_hash) return { links, broken: { seq: row.seq, before: before.seq } };
    links += 1;
  }
  return { links, broken: null };
}
