import { hasRole, useMe } from "@/data/session";
import { useUrlState } from "@/kit/url-state";
import type { Dimension, Usage } from "./filter";

/** Rows of the breakdown on one page. */
export const SHOWN_GROUPS = 10;

/** By what the breakdown sums, and by what it could. */
export function useDimension({ own }: Usage) {
  const me = useMe();
  const [word, set] = useUrlState("group", "model");
  const all: Dimension[] = own
    ? ["model", "key"]
    : me && hasRole(me.role, "admin")
      ? ["model", "key", "user", "org"]
      : ["model", "key", "user"];
  return { all, by: all.find((it) => it === word) ?? "model", set };
}
