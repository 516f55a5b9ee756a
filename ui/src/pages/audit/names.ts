import type { Model } from "@/api/types";
import type { AuditRow } from "@/data/audit";

type Row = Pick<AuditRow, "object_type" | "object_id" | "before" | "after">;

const FIELDS: Partial<Record<AuditRow["object_type"], string>> = {
  user: "username",
  org: "name",
  key: "name",
  token: "name",
  model: "served_name",
};

/** The name that a row itself says: the new one, if it was changed. */
function ownName({ object_type, before, after }: Row): string | undefined {
  const field = FIELDS[object_type];
  if (field === undefined) return;
  return [after?.[field], before?.[field]].find((it) => typeof it === "string" && it !== "") as
    | string
    | undefined;
}

/**
 * Returns what the object of a row is called: as the row says, else as the newest loaded row of the same object does, else as the model
 * is called now. Rows of changes have only the fields that changed.
 */
export function namesOf(rows: Row[], models: Model[]): (row: Row) => string | undefined {
  const keyOf = (row: Row) => `${row.object_type} ${row.object_id}`;
  const known = new Map(models.map((it) => [`model ${it.id}`, it.served_name]));
  const said = new Set<string>();
  for (const row of rows) {
    const [key, name] = [keyOf(row), ownName(row)];
    if (name === undefined || said.has(key)) continue;
    said.add(key);
    known.set(key, name);
  }
  return (row) => ownName(row) ?? known.get(keyOf(row));
}
