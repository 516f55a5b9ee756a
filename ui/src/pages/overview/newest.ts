import type { Model, UsageRow } from "@/api/types";

/** A model that failed, and since when; or requests that failed in the same way, with the newest of them. */
export type Failed =
  | { kind: "model"; model: Model; at: string | undefined }
  | { kind: "requests"; row: UsageRow; count: number; at: string };

/** Names the way in which a request failed. */
export const sameFailure = (row: UsageRow): string =>
  JSON.stringify([row.status_code, row.model_name, row.endpoint, row.outcome]);

/** Brings failures into one order, the newest first. Requests that failed in the same way are one of them. */
export function newestOf(models: { model: Model; at: string | undefined }[], rows: UsageRow[]): Failed[] {
  const groups = new Map<string, Failed & { kind: "requests" }>();
  for (const row of rows) {
    const key = sameFailure(row);
    const known = groups.get(key);
    if (!known) groups.set(key, { kind: "requests", row, count: row.requests, at: row.created_at });
    else {
      known.count += row.requests;
      if (Date.parse(row.created_at) > Date.parse(known.at))
        Object.assign(known, { row, at: row.created_at });
    }
  }
  const time = ({ at }: Failed) => (at === undefined ? Number.POSITIVE_INFINITY : Date.parse(at));
  const all: Failed[] = [
    ...models.map(({ model, at }): Failed => ({ kind: "model", model, at })),
    ...groups.values(),
  ];
  return all.sort((a, b) => (time(a) === time(b) ? 0 : time(b) - time(a)));
}
