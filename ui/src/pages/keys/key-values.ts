import type { Body, Key } from "@/api/types";
import { type Limits, limitsOf, NO_LIMITS } from "@/kit/limits/limits";

export const SCOPES = ["chat", "completions", "embeddings"] as const;
export type Scope = (typeof SCOPES)[number];
export const DAYS = ["7", "30", "90"] as const;
/** When a key expires, as the form has it: `keep` is what the record says. */
export type Expiry = "never" | (typeof DAYS)[number] | "365" | "at" | "keep";

/** What the form of a key holds. */
export type KeyValues = {
  name: string;
  scopes: Scope[];
  models: string[];
  ip_allowlist: string[];
  expires: Expiry;
  /** For `at`: a time as `datetime-local` has it, in the browser's zone. */
  at: string;
  limits: Limits;
  limit_mode: Key["limit_mode"];
};

export const NEW_KEY: KeyValues = {
  name: "",
  scopes: [...SCOPES],
  models: [],
  ip_allowlist: [],
  expires: "never",
  at: "",
  limits: NO_LIMITS,
  limit_mode: "enforce",
};

/** Returns the scopes of a key, which the API gives as one text. */
export function scopesOf(key: Pick<Key, "scopes">): Scope[] {
  const words = new Set(key.scopes.split(",").map((it) => it.trim()));
  return SCOPES.filter((it) => words.has(it));
}

export function valuesOf(key: Key): KeyValues {
  return {
    name: key.name,
    scopes: scopesOf(key),
    models: key.models ?? [],
    ip_allowlist: key.ip_allowlist,
    expires: key.expires_at === null ? "never" : "keep",
    at: "",
    limits: limitsOf(key),
    limit_mode: key.limit_mode,
  };
}

function expiresAt(values: KeyValues, known: string | null, now: number): string | null {
  if (values.expires === "never") return null;
  if (values.expires === "keep") return known;
  if (values.expires === "at") return new Date(values.at).toISOString();
  return new Date(now + Number(values.expires) * 86_400_000).toISOString();
}

type Content = Omit<NonNullable<Body<"createKey">>, "user_id" | "org_id">;

/** Returns the body that makes the key, or that says all of it. */
export function bodyOf(values: KeyValues, known: string | null, now: number): Content {
  const { name, scopes, models, ip_allowlist, limits, limit_mode } = values;
  return {
    name: name.trim(),
    scopes,
    models: models.length > 0 ? models : null,
    ip_allowlist,
    expires_at: expiresAt(values, known, now),
    ...limits,
    limit_mode,
  };
}

/** Returns only what differs from the record, so that what somebody else changed meanwhile stays. */
export function changesOf(values: KeyValues, key: Key, now: number): Body<"changeKey"> {
  const was = bodyOf(valuesOf(key), key.expires_at, now);
  const is = bodyOf(values, key.expires_at, now);
  const changed = Object.entries(is).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(was[name as keyof Content]),
  );
  return Object.fromEntries(changed);
}
