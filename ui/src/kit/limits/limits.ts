import type { Schema } from "@/api/types";

export type Limits = Schema<"Limits">;
export type LimitName = keyof Limits;

/** Every limit of a key, a user or an organisation, in the order of the forms. */
export const LIMITS = [
  "rpm_limit",
  "tpm_limit",
  "max_concurrency",
  "max_streams",
  "budget_tokens_day",
  "budget_tokens_month",
] as const satisfies readonly LimitName[];

/** The largest values that the gateway takes. */
export const MOST: Limits & Record<LimitName, number> = {
  rpm_limit: 1e9,
  tpm_limit: 1e9,
  max_concurrency: 1e9,
  max_streams: 1e9,
  budget_tokens_day: 1e14,
  budget_tokens_month: 1e14,
};

export const NO_LIMITS: Limits = {
  rpm_limit: null,
  tpm_limit: null,
  max_concurrency: null,
  max_streams: null,
  budget_tokens_day: null,
  budget_tokens_month: null,
};

/** Returns the limits of a record that has more than limits. */
export function limitsOf(record: Limits): Limits {
  const { rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, budget_tokens_month } =
    record;
  return { rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, budget_tokens_month };
}

/** Returns the first limit that is no whole number of the range that the gateway takes. */
export function wrongLimit(limits: Limits): LimitName | undefined {
  return LIMITS.find((name) => {
    const value = limits[name];
    return value !== null && !(Number.isInteger(value) && value >= 1 && value <= MOST[name]);
  });
}

/** Returns the limits that differ from those of a record. */
export function changedLimits(limits: Limits, record: Limits): Partial<Limits> {
  const changed = LIMITS.filter((name) => limits[name] !== record[name]);
  return Object.fromEntries(changed.map((name) => [name, limits[name]]));
}
