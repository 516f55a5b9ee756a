import { useCallback, useMemo } from "react";
import { useSetUrl, useUrl } from "./url-state";

export const RANGES = ["15m", "1h", "6h", "24h", "7d", "30d", "90d"] as const;
export type RelativeRange = (typeof RANGES)[number];

const MINUTES: Record<RelativeRange, number> = {
  "15m": 15,
  "1h": 60,
  "6h": 360,
  "24h": 1440,
  "7d": 10_080,
  "30d": 43_200,
  "90d": 129_600,
};

/** A range of time: one that ends now, such as the last hour, or from one time to another, in milliseconds since 1970. */
export type Range = { last: RelativeRange } | { from: number; to: number };

/** Returns the beginning and the end of a range, and how many minutes it is long. */
export function spanOf(range: Range, now: number): { from: number; to: number; minutes: number } {
  if (!("last" in range))
    return { ...range, minutes: Math.max(1, Math.round((range.to - range.from) / 60_000)) };
  return { from: now - MINUTES[range.last] * 60_000, to: now, minutes: MINUTES[range.last] };
}

/** The time range of the page, which stands in the address. */
export function useRange(fallback: RelativeRange = "24h"): { range: Range; setRange: (to: Range) => void } {
  const { range: word, from, to } = useUrl();
  const change = useSetUrl();
  const range = useMemo<Range>(() => {
    const [begin, end] = [Date.parse(from ?? ""), Date.parse(to ?? "")];
    if (begin < end) return { from: begin, to: end };
    const last = RANGES.find((it) => it === word);
    return { last: last ?? fallback };
  }, [word, from, to, fallback]);
  const setRange = useCallback(
    (next: Range) => {
      if ("last" in next)
        change(
          { range: next.last === fallback ? undefined : next.last, from: undefined, to: undefined },
          { push: true },
        );
      else
        change(
          { range: undefined, from: new Date(next.from).toISOString(), to: new Date(next.to).toISOString() },
          { push: true },
        );
    },
    [change, fallback],
  );
  return { range, setRange };
}
