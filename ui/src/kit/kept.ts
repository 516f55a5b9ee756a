import { useEffect, useState } from "react";

const PREFIX = "gantry.draft ";

/** Returns what this tab of the browser keeps under a name: `null` for nothing. An older version may have written it. */
export function kept(name: string): unknown {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

/** Keeps what was typed for this tab until it is saved; `null` forgets it. Secrets must not be part of it. */
export function keep(name: string, value: unknown): void {
  try {
    if (value === null) sessionStorage.removeItem(PREFIX + name);
    else sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing loses it with a reload.
  }
}

/** Forgets all that was typed in this tab. */
export function forgetKept(): void {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
  } catch {
    // Then nothing was kept.
  }
}

/** The beginning of the names under which this browser keeps what an account wrote, over a reload and for all tabs. */
export const placeOf = (account: number): string => `gantry.playground.${account}.`;

/** Forgets what an account wrote in this browser. */
export function forgetAccount(account: number): void {
  const place = placeOf(account);
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(place)) localStorage.removeItem(key);
  } catch {
    // Then nothing was kept.
  }
}

/** Says who signed in: what somebody else typed in this tab is forgotten. */
export function claimKept(username: string): void {
  if (kept("of") !== username) forgetKept();
  keep("of", username);
}

/** Whether a value that was kept can stand where `first` stands. What is empty is `null`. */
const fits = (value: unknown, first: unknown) =>
  value === null || first === null || typeof value === typeof first;

function restored<T extends object>(first: T, value: unknown): T {
  if (typeof value !== "object" || value === null) return first;
  const known = value as Record<string, unknown>;
  const good = Object.entries(first).every(([name, it]) => name in known && fits(known[name], it));
  return good ? (value as T) : first;
}

/**
 * The values of a form that outlive a change of tab, a link and a reload, until they are forgotten: the values, a function that
 * changes some of them, and one that goes back to `first`, which must be a constant.
 */
export function useKept<T extends object>(
  name: string,
  first: T,
): [T, (part: Partial<T>) => void, () => void] {
  const [values, setValues] = useState(() => restored(first, kept(name)));
  useEffect(() => {
    keep(name, JSON.stringify(values) === JSON.stringify(first) ? null : values);
  }, [name, first, values]);
  const forget = () => {
    // The form may be gone before it is drawn again.
    keep(name, null);
    setValues(first);
  };
  return [values, (part) => setValues((old) => ({ ...old, ...part })), forget];
}
