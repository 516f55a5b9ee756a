import type { Schema } from "@/api/types";
import { useFormat } from "@/i18n";
import { Meter } from "../bars";
import { cn } from "../cn";
import { LIMITS, type Limits } from "./limits";
import { useT } from "./t";

type Budgets = Schema<"Budgets">;

/** What of each limit is used now, as the gateway that answered knows it. */
export function StandingMeters({ standing }: { standing: Schema<"Standing"> }) {
  const t = useT();
  const format = useFormat();
  const shown = LIMITS.flatMap((name) => {
    const it = standing[name];
    return it ? [{ name, ...it }] : [];
  });
  if (shown.length === 0) return <p className="text-ink-3 text-sm">{t.none}</p>;
  return (
    <div className="grid gap-x-6 gap-y-3 sm:grid-cols-2">
      {shown.map((it) => (
        <div key={it.name} className="min-w-0">
          <Meter
            label={t.names[it.name]}
            value={it.used / it.limit}
            text={t.used(format.compact(it.used), format.compact(it.limit))}
          />
          {it.reset_sec !== null && it.used > 0 && (
            <p className="mt-0.5 text-ink-3 text-xs">{t.resetIn(format.duration(it.reset_sec * 1000))}</p>
          )}
        </div>
      ))}
    </div>
  );
}

/** The limits of a record: budgets with what is used of them, and the rates that are allowed. */
export function LimitMeters({ limits, budget }: { limits: Limits; budget: Budgets | null }) {
  const t = useT();
  const format = useFormat();
  const rates = LIMITS.filter((it) => !it.startsWith("budget") && limits[it] !== null);
  const budgets = [
    { name: "budget_tokens_day" as const, it: budget?.day },
    { name: "budget_tokens_month" as const, it: budget?.month },
  ].filter(({ name }) => limits[name] !== null);
  if (rates.length + budgets.length === 0) return <p className="text-ink-3 text-sm">{t.none}</p>;
  return (
    <div className="flex flex-col gap-3">
      {budgets.map(({ name, it }) => (
        <Meter
          key={name}
          label={t.names[name]}
          value={it?.used != null ? it.used / it.limit : null}
          text={
            it?.used != null
              ? t.used(format.compact(it.used), format.compact(it.limit))
              : `${t.limitOnly(format.compact(limits[name] ?? 0))} · ${t.notCounted}`
          }
        />
      ))}
      {rates.length > 0 && (
        <dl className="grid grid-cols-[1fr_auto] gap-x-6 gap-y-1.5 text-sm">
          {rates.map((name) => (
            <div key={name} className="contents">
              <dt className="text-ink-2">{t.names[name]}</dt>
              <dd className="text-right tabular-nums">{format.integer(limits[name] ?? 0)}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

/** The limits in one line of a table: the fuller budget as a bar, else all of them in short, as where nothing is counted yet. */
export function LimitsInShort({ limits, budget }: { limits: Limits; budget: Budgets | null }) {
  const t = useT();
  const format = useFormat();
  const parts = [
    { name: t.day, it: budget?.day },
    { name: t.month, it: budget?.month },
  ];
  const fullest = parts
    .flatMap(({ name, it }) => (it?.pct != null ? [{ name, ...it, pct: it.pct }] : []))
    .sort((a, b) => b.pct - a.pct)[0];
  if (fullest) {
    const text = t.used(format.compact(fullest.used ?? 0), format.compact(fullest.limit));
    const fill = fullest.pct >= 100 ? "bg-bad-solid" : fullest.warning ? "bg-warn-solid" : "bg-accent";
    return (
      <span className="flex w-28 items-center gap-2" title={`${fullest.name}: ${text}`}>
        <span
          role="meter"
          aria-label={`${fullest.name}: ${text}`}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.min(100, fullest.pct)}
          className="h-1.5 flex-1 overflow-hidden rounded-full bg-idle-soft"
        >
          <span
            className={cn("block h-full rounded-full", fill)}
            style={{ width: `${Math.min(100, fullest.pct)}%` }}
          />
        </span>
        <span className="w-11 text-right text-ink-2">{format.percent(fullest.pct)}</span>
      </span>
    );
  }
  const words = LIMITS.flatMap((name) => {
    const value = limits[name];
    return value === null ? [] : [t.short[name](format.compact(value))];
  });
  if (words.length === 0) return <span className="text-ink-3">–</span>;
  return (
    <span className="whitespace-nowrap" title={words.join(", ")}>
      {words[0]}
      {words.length > 1 && <span className="text-ink-3"> +{words.length - 1}</span>}
    </span>
  );
}
