import type { ReactNode } from "react";
import { type Step, useGroups, useLatency, useSteps, useTtft } from "@/data/usage-explore";
import { useFormat } from "@/i18n";
import { cn } from "@/kit/cn";
import { Panel } from "@/kit/panel";
import { Fact } from "@/kit/text";
import type { Usage } from "./filter";
import { useT } from "./t";

const NONE = "–";
/** Keeps the lines of all cards at one height. */
const BLANK = "\u00a0";

function sums(steps: Step[] | undefined) {
  if (!steps) return undefined;
  const sum = (of: "requests" | "errors" | "prompt_tokens" | "completion_tokens" | "total_tokens") =>
    steps.reduce((all, it) => all + it[of], 0);
  return {
    requests: sum("requests"),
    errors: sum("errors"),
    input: sum("prompt_tokens"),
    output: sum("completion_tokens"),
    tokens: sum("total_tokens"),
  };
}

type Percentiles = { p50: number | null; p95: number | null; p99: number | null; samples: number | null };

/** Percentiles of all, or of one's own, which the gateway has among the sums by user only. */
function usePercentiles(usage: Usage, filter: Usage["now"]): { latency?: Percentiles; ttft?: Percentiles } {
  const { own } = usage;
  const latency = useLatency(filter, !own);
  const ttft = useTtft(filter, !own);
  const mine = useGroups({ ...filter, group_by: "user", limit: 1 }, true, { enabled: own });
  if (own) {
    const group = mine.data?.items[0];
    return { latency: group && { p50: group.p50_ms, p95: group.p95_ms, p99: null, samples: null } };
  }
  const of = (it: typeof latency.data) =>
    it && { p50: it.p50_ms, p95: it.p95_ms, p99: it.p99_ms, samples: it.samples };
  return { latency: of(latency.data), ttft: of(ttft.data) };
}

/** How a number stands against that of the period before. */
function Change({ now, before, write, worse }: ChangeProps) {
  const t = useT();
  const format = useFormat();
  if (now == null || before == null) return <span> </span>;
  if (before === 0 && now !== 0) return <span title={t.cards.was(write(0))}>{t.cards.none}</span>;
  const share = before === 0 ? 0 : ((now - before) / before) * 100;
  if (share >= 1000) return <span>{t.cards.was(write(before))}</span>;
  const flat = Math.abs(share) < 0.5;
  const bad = worse !== undefined && !flat && share > 0 === (worse === "more");
  const text = flat ? t.cards.same : t.cards.change(share > 0 ? "+" : "−", format.percent(Math.abs(share)));
  return (
    <span
      title={t.cards.was(write(before))}
      className={cn("whitespace-nowrap", worse && !flat && (bad ? "text-bad" : "text-ok"))}
    >
      {text}
    </span>
  );
}

type ChangeProps = {
  now: number | null | undefined;
  before: number | null | undefined;
  write: (value: number) => string;
  /** Which direction is a bad one; without it neither is. */
  worse?: "more" | "less";
};

/** The sums of the range, each against the period of the same length before it. */
export function Cards({ usage }: { usage: Usage }) {
  const t = useT();
  const format = useFormat();
  const now = sums(useSteps(usage.now, "day", usage.own).data);
  const before = sums(useSteps(usage.before, "day", usage.own).data);
  const times = usePercentiles(usage, usage.now);
  const timesBefore = usePercentiles(usage, usage.before);
  const { compact, duration } = format;
  const rate = (it: typeof now) => (it && it.requests > 0 ? (it.errors / it.requests) * 100 : null);
  const shown = (value: number | null | undefined, write: (value: number) => string) =>
    value == null ? NONE : write(value);
  const rest = (it: Percentiles | undefined) =>
    !it || it.p95 === null
      ? BLANK
      : it.p99 === null
        ? t.cards.p95(duration(it.p95))
        : t.cards.rest(duration(it.p95), duration(it.p99));
  const cards: [string, string, ReactNode, ChangeProps][] = [
    [
      t.cards.requests,
      shown(now?.requests, compact),
      BLANK,
      { now: now?.requests, before: before?.requests, write: compact },
    ],
    [
      t.cards.tokens,
      shown(now?.tokens, compact),
      now ? t.cards.split(compact(now.input), compact(now.output)) : BLANK,
      { now: now?.tokens, before: before?.tokens, write: compact },
    ],
    [
      t.cards.errors,
      shown(now?.errors, compact),
      rate(now) === null ? BLANK : t.cards.rate(format.percent(rate(now) ?? 0)),
      { now: rate(now), before: rate(before), write: format.percent, worse: "more" },
    ],
    [
      t.cards.latency,
      shown(times.latency?.p50, duration),
      rest(times.latency),
      { now: times.latency?.p50, before: timesBefore.latency?.p50, write: duration, worse: "more" },
    ],
  ];
  if (!usage.own)
    cards.push([
      t.cards.ttft,
      shown(times.ttft?.p50, duration),
      rest(times.ttft),
      { now: times.ttft?.p50, before: timesBefore.ttft?.p50, write: duration, worse: "more" },
    ]);
  const share = times.ttft?.samples != null && now?.requests ? times.ttft.samples / now.requests : null;
  return (
    <Panel>
      <div
        className={cn(
          "grid grid-cols-2 gap-x-6 gap-y-4 md:grid-cols-4",
          !usage.own && "sm:grid-cols-3 md:grid-cols-5",
        )}
      >
        {cards.map(([label, value, note, change]) => (
          <Fact key={label} label={label} value={value} note={note}>
            <div className="truncate text-ink-2 text-xs">
              <Change {...change} />
            </div>
            {label === t.cards.ttft && share !== null && (
              <div className="text-ink-3 text-xs">
                {t.cards.streamed(format.percent(Math.min(100, share * 100)))}
              </div>
            )}
          </Fact>
        ))}
      </div>
    </Panel>
  );
}
