import type { Model } from "@/api/types";
import { type Pane, TimeSeries } from "@/charts/time-series";
import { ofModel, rateBetween, useMetricSamples } from "@/data/metric-samples";
import { useUsageSeries } from "@/data/usage";
import { useFormat } from "@/i18n";
import { EmptyState } from "@/kit/empty-state";
import { ErrorState } from "@/kit/error-state";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { Fact } from "@/kit/text";
import { useT } from "./t";

/** What the engine says of itself now and since the page was opened, and the model's requests of the last day. */
export function Metrics({ model }: { model: Model }) {
  const t = useT();
  const format = useFormat();
  const running = model.state === "running";
  const { data: samples = [], error, refetch } = useMetricSamples(running);
  const now = ofModel(samples.at(-1), model.id);
  const rate = rateBetween(samples.at(-2), samples.at(-1), model.id);
  const count = (value: number | null | undefined) => (value == null ? "–" : format.compact(value));
  const time = (value: number | null | undefined) =>
    value == null ? "–" : format.duration(Math.round(value));
  const percent = (value: number | null | undefined) =>
    value == null ? "–" : format.percent(Math.round(value * 1000) / 10);
  const both = (a: number | null | undefined, b: number | null | undefined) =>
    `${t.metrics.p95} ${time(b)}${a == null || !now?.latency_source ? "" : ` · ${t.metrics.source(t.metrics.who[now.latency_source])}`}`;
  return (
    <div className="flex flex-col gap-4">
      <Panel title={t.metrics.now}>
        {error && samples.length === 0 ? (
          <ErrorState error={error} onRetry={refetch} />
        ) : !running ? (
          <EmptyState title={t.metrics.notRunning} />
        ) : (
          <div className="grid grid-cols-2 gap-x-6 gap-y-5 md:grid-cols-3 xl:grid-cols-6">
            <Fact
              label={t.metrics.running}
              value={count(now?.requests_running)}
              note={`${t.metrics.waiting}: ${count(now?.requests_waiting)}`}
            />
            <Fact
              label={t.metrics.rate}
              value={rate === null ? "–" : format.decimal(rate, rate < 10 ? 1 : 0)}
              note={`${t.metrics.generated}: ${count(now?.generation_tokens_total)}`}
            />
            <Fact
              label={t.metrics.cache}
              value={percent(now?.kv_cache_usage)}
              note={`${t.metrics.prefix}: ${percent(now?.prefix_cache_hit_rate)}`}
            />
            <Fact
              label={t.metrics.ttft}
              value={time(now?.ttft_p50_ms)}
              note={both(now?.ttft_p50_ms, now?.ttft_p95_ms)}
            />
            <Fact
              label={t.metrics.latency}
              value={time(now?.latency_p50_ms)}
              note={both(now?.latency_p50_ms, now?.latency_p95_ms)}
            />
            <Fact label={t.metrics.prompt} value={count(now?.prompt_tokens_total)} />
          </div>
        )}
        {now?.error && <p className="mt-3 text-sm text-warn">{now.error}</p>}
      </Panel>
      {running && <Since model={model} />}
      <Day model={model} />
    </div>
  );
}

function Since({ model }: { model: Model }) {
  const t = useT();
  const format = useFormat();
  const { data: samples = [] } = useMetricSamples();
  const of = samples.map((it) => ofModel(it, model.id));
  const panes: Pane[] = [
    {
      id: "requests",
      title: t.metrics.requests,
      write: (value) => format.decimal(value, 1),
      height: 120,
      series: [
        { id: "running", label: t.metrics.running, values: of.map((it) => it?.requests_running ?? null) },
        { id: "waiting", label: t.metrics.waiting, values: of.map((it) => it?.requests_waiting ?? null) },
      ],
    },
    {
      id: "rate",
      title: t.metrics.rate,
      write: (value) => format.decimal(value, 1),
      height: 120,
      area: true,
      series: [
        {
          id: "rate",
          label: t.metrics.rate,
          values: samples.map((it, index) => rateBetween(samples[index - 1], it, model.id)),
        },
      ],
    },
    {
      id: "cache",
      title: t.metrics.cache,
      write: (value) => format.percent(Math.round(value)),
      height: 120,
      max: 100,
      series: [
        {
          id: "cache",
          label: t.metrics.cache,
          values: of.map((it) => (it?.kv_cache_usage == null ? null : it.kv_cache_usage * 100)),
        },
      ],
    },
    {
      id: "ttft",
      title: t.metrics.ttft,
      write: (value) => format.duration(Math.round(value)),
      height: 120,
      series: [
        { id: "p50", label: t.metrics.p50, values: of.map((it) => it?.ttft_p50_ms ?? null) },
        { id: "p95", label: t.metrics.p95, values: of.map((it) => it?.ttft_p95_ms ?? null) },
      ],
    },
  ];
  return (
    <Panel title={t.metrics.since}>
      {samples.length > 1 ? (
        <TimeSeries
          label={t.metrics.since}
          times={samples.map((it) => it.at)}
          // Engines differ in what they say of themselves.
          panes={panes.filter(({ series }) => series.some(({ values }) => values.some((it) => it !== null)))}
        />
      ) : (
        <p className="text-ink-2 text-sm">{t.metrics.none}</p>
      )}
    </Panel>
  );
}

function Day({ model }: { model: Model }) {
  const t = useT();
  const format = useFormat();
  const { data, error, refetch } = useUsageSeries(
    { model: model.served_name, hours: 24, bucket: "hour" },
    { refetchInterval: 60_000 },
  );
  const write = (value: number) => format.compact(Math.round(value));
  const panes: Pane[] = [
    {
      id: "requests",
      title: t.metrics.requests,
      write,
      height: 120,
      bars: true,
      stacked: true,
      whole: true,
      series: [
        { id: "ok", label: t.metrics.ok, values: data?.map((it) => it.requests - it.errors) ?? [] },
        { id: "errors", label: t.metrics.errors, values: data?.map((it) => it.errors) ?? [], color: 4 },
      ],
    },
    {
      id: "tokens",
      title: t.metrics.tokens,
      write,
      height: 120,
      bars: true,
      stacked: true,
      whole: true,
      series: [
        { id: "prompt", label: t.metrics.prompt, values: data?.map((it) => it.prompt_tokens) ?? [] },
        {
          id: "generated",
          label: t.metrics.generated,
          values: data?.map((it) => it.completion_tokens) ?? [],
        },
      ],
    },
  ];
  return (
    <Panel
      title={t.metrics.day}
      actions={
        <Link to="/usage" search={{ model: model.served_name }} className="text-sm">
          {t.metrics.usage}
        </Link>
      }
    >
      {error && !data ? (
        <ErrorState error={error} onRetry={refetch} />
      ) : (
        <TimeSeries label={t.metrics.day} times={data?.map((it) => Date.parse(it.ts)) ?? []} panes={panes} />
      )}
    </Panel>
  );
}
