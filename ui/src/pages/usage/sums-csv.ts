import type { Group } from "@/data/usage-explore";
import { csvOf } from "@/kit/csv";
import type { Dimension } from "./filter";
import { groupName } from "./group-name";
import type { useT } from "./t";

const SUMS = [
  "requests",
  "errors",
  "prompt_tokens",
  "cached_tokens",
  "completion_tokens",
  "total_tokens",
  "p50_ms",
  "p95_ms",
] as const;

/** Writes the breakdown as CSV: the name of each group, its id if it has one, and its sums, named as in the API. */
export function sumsCsv(groups: Group[], by: Dimension, t: ReturnType<typeof useT>): string {
  const id = by === "model" ? [] : [`${by}_id`];
  return csvOf(
    [by, ...id, ...SUMS],
    groups.map((it) => [
      groupName(it, by, t),
      ...(by === "model" ? [] : [it.group_id]),
      ...SUMS.map((name) => it[name]),
    ]),
  );
}
