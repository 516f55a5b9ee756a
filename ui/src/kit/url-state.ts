import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

/** What stands behind `?` in the address: words only. `undefined` takes a word away. */
export type UrlChange = Record<string, string | undefined>;

/** Changes what stands behind `?`. It replaces the entry of the history, unless `push` is set. */
export function useSetUrl(): (change: UrlChange, options?: { push?: boolean }) => void {
  const navigate = useNavigate();
  return useCallback(
    (change, { push = false } = {}) => {
      const search = (old: Record<string, string | undefined>) => {
        const next: Record<string, string | undefined> = { ...old, ...change };
        for (const [name, value] of Object.entries(next))
          if (value === undefined || value === "") delete next[name];
        return next;
      };
      void navigate({ to: ".", search, replace: !push, resetScroll: false });
    },
    [navigate],
  );
}

/** Returns everything that stands behind `?`. */
export function useUrl(): Record<string, string | undefined> {
  return useSearch({ strict: false });
}

/** State that lives in the address: `const [tab, setTab] = useUrlState("tab", "logs")`. The fallback is not written there. */
export function useUrlState(
  name: string,
  fallback = "",
): [string, (to: string, options?: { push?: boolean }) => void] {
  const value = useUrl()[name];
  const change = useSetUrl();
  const set = useCallback(
    (to: string, options?: { push?: boolean }) =>
      change({ [name]: to === fallback ? undefined : to }, options),
    [change, name, fallback],
  );
  return [value ?? fallback, set];
}
