import { formErrors } from "@/kit/form";
import { LIMITS, wrongLimit } from "@/kit/limits/limits";
import { isIpRange } from "./ip";
import type { KeyValues } from "./key-values";
import type { useT } from "./t";

export const FIELDS = [
  "name",
  "scopes",
  "models",
  "ip_allowlist",
  "expires_at",
  "user_id",
  "org_id",
  ...LIMITS,
  "limit_mode",
] as const;

type Problem = { field: string; message: string };

/** Returns the first thing that is wrong with what was typed, before the gateway is asked. */
export function problemOf(values: KeyValues, t: ReturnType<typeof useT>): Problem | undefined {
  if (values.scopes.length === 0) return { field: "scopes", message: t.form.needScope };
  const address = values.ip_allowlist.find((it) => !isIpRange(it));
  if (address !== undefined) return { field: "ip_allowlist", message: t.form.badAddress(address) };
  if (values.expires === "at" && !(new Date(values.at).getTime() > Date.now()))
    return { field: "expires_at", message: t.form.past };
  const limit = wrongLimit(values.limits);
  if (limit) return { field: limit, message: t.form.badLimit };
  return undefined;
}

/** Joins what the form found with what the gateway said. */
export function errorsOf(problem: Problem | undefined, error: unknown) {
  const said = formErrors(error, FIELDS);
  return {
    of: (field: string) => (problem?.field === field ? problem.message : said.of(field)),
    rest: said.rest,
  };
}
