import { useMemo } from "react";
import { type Series, TimeSeries } from "@/charts/time-series";
import { hasRole, useMe } from "@/data/session";
import { type Step, type UsageFilter, useGroups, useManySteps, useSteps } from "@/data/usage-explore";
import { useFormat } from "@/i18n";
import { ErrorState } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Select } from "@/kit/select";
import { Skeleton } from "@/kit/skeleton";
import { useUrlState } from "@/kit/url-state";
import { SHOWN_GROUPS } from "./dimension";
import { type Dimension, type Usage, within } from "./filter";
import { groupName } from "./group-name";
import { useT } from "./t";

const METRICS = ["requests", "total_tokens", "prompt_tokens", "completion_tokens", "errors"] as const;
const BYS = ["none", "model", "key", "user", "org", "status"] as const;
type Metric = (typeof METRICS)[number];
type By = (typeof BYS)[number];
/** The colours of series are six; one is for the others. */
const MOST = 5;
const STATUS_COLOURS = { "2xx": 1, "4xx": 2, "5xx": 4 } as const;

type Part = { id: string; label: string; filter: UsageFilter; color?: Series["color"] };

/** What the series is divided into: the largest groups of a dimension, or the classes of status. */
function useParts(usage: Usage, by: By, metric: Metric): { parts: Part[] | undefined; error: unknown } {
  const t = useT();
  const dimension: Dimension | null = by === "none" || by === "status" ? null : by;
  const groups = useGroups(
    // The same question as that of the breakdown, as long as both show the same.
    { ...usage.now, group_by: dimension ?? "model", sort: `-${metric}`, limit: SHOWN_GROUPS, offset: 0 },
    usage.own,
    { enabled: dimension !== null },
  );
  if (by === "status") {
    const classes = (["2xx", "4xx", "5xx"] as const).filter(
      (it) => !usage.now.status || usage.now.status === it,
    );
    const parts = classes.map((it) => ({
      id: it,
      label: t.status[it],
      filter: { ...usage.now, status: it },
      color: STATUS_COLOURS[it],
    }));
    return { parts, error: null };
  }
  if (!dimension) return { parts: [], error: null };
  const parts = groups.data?.items.slice(0, MOST).flatMap((group) => {
    const filter = within(usage.now, dimension, { id: group.group_id, name: group.model_name ?? "" });
    const id = dimension === "model" ? (group.model_name ?? "") : String(group.group_id);
    return filter ? [{ id, label: groupName(group, dimension, t), filter }] : [];
  });
  return { parts, error: groups.error };
}

const valuesOf = (steps: Step[], metric: Metric) => steps.map((it) => it[metric]);

/** The range over time, divided by a dimension. */
export function OverTime({ usage }: { usage: Usage }) {
  const t = useT();
  const format = useFormat();
  const me = useMe();
  const [metricWord, setMetric] = useUrlState("metric", "requests");
  const [byWord, setBy] = useUrlState("by", "model");
  const metric = METRICS.find((it) => it === metricWord) ?? "requests";
  const bys = BYS.filter((it) => {
    if (it === "user") return !usage.own;
    return it !== "org" || (!usage.own && me !== null && hasRole(me.role, "admin"));
  });
  const by = bys.find((it) => it === byWord) ?? "none";
  const whole = useSteps(usage.now, usage.bucket, usage.own);
  const { parts: known, error: groupsError } = useParts(usage, by, metric);
  const parts = known ?? [];
  const divided = useManySteps(
    parts.map((it) => it.filter),
    usage.bucket,
    usage.own,
  );
  // What is not here yet must not be shown as "others".
  const steps = known && divided.data.every(Boolean) ? whole.data : undefined;
  const error = whole.error ?? groupsError ?? divided.error;
  const series = useMemo((): Series[] => {
    if (!steps) return [];
    const all = valuesOf(steps, metric);
    if (by === "none") return [{ id: "all", label: t.series.metrics[metric], values: all }];
    const index = new Map(steps.map((it, at) => [it.ts, at]));
    const left = [...all];
    const shown = parts.map((part, at): Series => {
      const values: number[] = steps.map(() => 0);
      for (const step of divided.data[at] ?? []) {
        const place = index.get(step.ts);
        if (place === undefined) continue;
        values[place] = step[metric];
        left[place] = Math.max(0, (left[place] ?? 0) - step[metric]);
      }
      return { id: part.id, label: part.label, values, color: part.color };
    });
    if (left.some((it) => it > 0))
      shown.push({ id: "others", label: t.series.others, values: left, color: 6 });
    return shown;
  }, [steps, parts, divided.data, metric, by, t]);
  const times = useMemo(() => (steps ?? []).map((it) => Date.parse(it.ts)), [steps]);
  const title = `${t.series.metrics[metric]} ${t.series.per[usage.bucket]}`;
  const controls = (
    <>
      <Select
        compact
        aria-label={t.series.metric}
        value={metric}
        onValue={setMetric}
        options={METRICS.map((value) => ({ value, label: t.series.metrics[value] }))}
      />
      <Select
        compact
        aria-label={t.series.by}
        value={by}
        onValue={setBy}
        options={bys.map((value) => ({ value, label: t.series.bys[value] }))}
      />
    </>
  );
  return (
    <Panel
      title={t.series.title}
      note={"last" in usage.range && t.series.since(format.dateMinute(Date.parse(usage.now.from)))}
      actions={controls}
      className="xl:col-span-2"
    >
      {error && !steps ? (
        <ErrorState error={error} onRetry={() => void whole.refetch()} />
      ) : !steps ? (
        <Skeleton className="h-72" />
      ) : (
        <TimeSeries
          label={title}
          times={times}
          span={{ from: Date.parse(usage.now.from), to: Date.parse(usage.until) }}
          panes={[
            {
              id: metric,
              title,
              series,
              write: format.compact,
              height: 240,
              stacked: by !== "none",
              bars: true,
              whole: true,
            },
          ]}
          onZoom={(from, to) => usage.setRange({ from, to })}
        />
      )}
      <p className="mt-1 text-ink-3 text-xs">{t.series.zoom}</p>
    </Panel>
  );
}
