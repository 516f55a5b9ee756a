import { useEffect, useMemo, useState } from "react";
import { useMay } from "@/data/session";
import type { Bucket, UsageFilter } from "@/data/usage-explore";
import { type Range, spanOf, useRange } from "@/kit/range";
import { useSetUrl, useUrl } from "@/kit/url-state";

/** What stands in the address for a request without a model name: no name of a model begins with a blank. */
export const NO_MODEL = " ";
export const STATUSES = ["2xx", "4xx", "401", "403", "404", "429", "499", "5xx", "503"] as const;
export const OUTCOMES = [
  "ok",
  "client_error",
  "upstream_error",
  "client_closed",
  "timeout",
  "rejected",
] as const;
export const TASKS = ["generate", "embed"] as const;
export const WORDS = ["model", "key", "user", "org", "status", "outcome", "task"] as const;
export type Word = (typeof WORDS)[number];
export type Dimension = "model" | "key" | "user" | "org";

type Url = Record<string, string | undefined>;
const id = (word: string | undefined) => (word && /^[1-9]\d{0,18}$/.test(word) ? Number(word) : undefined);

/** Reads the filters of the address; what the gateway would refuse is left out. */
export function filterOf(url: Url): UsageFilter {
  const { model } = url;
  return {
    ...(model === NO_MODEL ? { no_model: "true" as const } : model ? { model } : {}),
    key_id: id(url.key),
    user_id: id(url.user),
    org_id: id(url.org),
    status: /^[1-5]([0-9][0-9]|xx)$/.test(url.status ?? "") ? url.status : undefined,
    outcome: OUTCOMES.find((it) => it === url.outcome),
    task: TASKS.find((it) => it === url.task),
  };
}

/** Returns the filter that also asks for one group of a dimension. */
export function within(filter: UsageFilter, by: Dimension, group: { id: number | null; name: string }) {
  if (by === "model")
    return group.name ? { ...filter, model: group.name } : { ...filter, no_model: "true" as const };
  if (group.id === null) return null;
  return { ...filter, [`${by}_id`]: group.id };
}

/** Returns how long a step of a series is, so that there are some 30 to 200 of them. */
export function bucketFor(minutes: number): Bucket {
  return minutes <= 180 ? "minute" : minutes <= 10_080 ? "hour" : "day";
}

const TICK = 15_000;
const HOUR = 3_600_000;

/**
 * What is asked for a range. The gateway has sums of whole hours; for a part of an hour it reads every row. So a long range that
 * ends now begins with a full hour, and its sums go on for as long as the answer is shown, in which there is nothing yet. `until`
 * is its end for lists, in which rows must not move; `before` is the beginning of the period of the same length before it.
 */
export function timesOf(range: Range, now: number) {
  const { from: begin, to: until, minutes } = spanOf(range, now);
  const bucket = bucketFor(minutes);
  const hours = "last" in range && bucket !== "minute";
  const from = hours ? Math.floor(begin / HOUR) * HOUR : begin;
  const to = hours ? Math.min(until + TICK, Math.ceil(until / HOUR) * HOUR) : until;
  return { bucket, from, to, until, before: 2 * from - until };
}

/** The end of a range that reaches up to now: it moves on every 15 seconds while the page is seen. */
function useAnchor(): number {
  const [anchor, setAnchor] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && setAnchor(Date.now()), TICK);
    return () => clearInterval(timer);
  }, []);
  return anchor;
}

/** Everything that the page is narrowed by, as the address says it. */
export function useUsageFilter() {
  const url = useUrl();
  const setUrl = useSetUrl();
  const mayAll = useMay()("listUsage");
  const own = !mayAll || url.whose === "own";
  const { range, setRange } = useRange("24h");
  const anchor = useAnchor();
  const times = useMemo(() => timesOf(range, anchor), [range, anchor]);
  const words = WORDS.map((it) => url[it] ?? "").join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: `words` is all of the address that the filter reads
  const filter = useMemo(() => filterOf(url), [words]);
  const time = (at: number) => new Date(at).toISOString();
  const now = { ...filter, from: time(times.from), to: time(times.to) };
  const before = { ...filter, from: time(times.before), to: now.from };
  return {
    own,
    mayAll,
    filter,
    range,
    setRange,
    now,
    until: time(times.until),
    before,
    bucket: times.bucket,
    /** Changes the filters, so that "Back" undoes it. */
    set: (change: Partial<Record<Word, string>>) => setUrl(change, { push: true }),
    url,
    setUrl,
  };
}

export type Usage = ReturnType<typeof useUsageFilter>;
