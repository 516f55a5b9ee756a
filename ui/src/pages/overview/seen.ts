import type { Model, UsageRow } from "@/api/types";
import { type Failed, sameFailure } from "./newest";

/** For each kind of failure that was marked as seen, when the newest of them was. */
export type Seen = Record<string, string>;
/** Must be a constant for `useLocal`. */
export const NOTHING_SEEN: Seen = {};
/** How many kinds are remembered; the oldest are forgotten. */
const MOST = 200;

type FailedModel = { model: Model; at: string | undefined };

const ofModel = (model: Model) => `model ${model.id}`;
const keyOf = (it: Failed) => (it.kind === "model" ? ofModel(it.model) : sameFailure(it.row));

/** Whether a failure of that time was marked. While a time is not known, what was marked stays away. */
function isSeen(seen: Seen, key: string, at: string | undefined): boolean {
  const until = seen[key];
  return until !== undefined && (at === undefined || Date.parse(at) <= Date.parse(until));
}

/** Brings models first of which nothing was marked. */
export const unseenFirst = (seen: Seen, models: Model[]): Model[] =>
  models.toSorted((a, b) => Number(ofModel(a) in seen) - Number(ofModel(b) in seen));

/** Leaves out what was marked as seen. What has failed in the same way since then stays. */
export function unseen(seen: Seen, models: FailedModel[], rows: UsageRow[]): [FailedModel[], UsageRow[]] {
  return [
    models.filter(({ model, at }) => !isSeen(seen, ofModel(model), at)),
    rows.filter((row) => !isSeen(seen, sameFailure(row), row.created_at)),
  ];
}

/** Marks failures as seen, as far as it is known when they were. */
export function marked(seen: Seen, failures: Failed[]): Seen {
  const known = failures.flatMap((it) => (it.at === undefined ? [] : [[keyOf(it), it.at] as const]));
  const all = { ...seen, ...Object.fromEntries(known) };
  const newest = Object.entries(all).sort(([, a], [, b]) => Date.parse(b) - Date.parse(a));
  return Object.fromEntries(newest.slice(0, MOST));
}
