import { Sparkline } from "@/charts/sparkline";
import { type Throughput, useThroughput } from "@/data/system";
import { useUsageSeries } from "@/data/usage";
import { useFormat } from "@/i18n";
import { ErrorState } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Fact } from "@/kit/text";
import { useT } from "./t";

const POINTS = 60;
const NONE = "–";

/** What goes through the gateway now, with its course since the page was opened. */
export function Traffic() {
  const t = useT();
  const format = useFormat();
  const { data, error, refetch } = useThroughput();
  const hour = useUsageSeries({ bucket: "minute", hours: 1 }, { refetchInterval: 10_000 });
  const now = data?.at(-1);
  const course = (of: (it: Throughput) => number | null) => {
    const values = (data ?? []).slice(-POINTS).map(of);
    return [...Array.from({ length: POINTS - values.length }, () => null), ...values];
  };
  const rate = (value: number) =>
    t.traffic.perSecond(value >= 1000 ? format.compact(value) : format.decimal(value, value < 10 ? 2 : 1));
  const time = (value: number | null | undefined) =>
    value === null || value === undefined ? NONE : format.duration(value);
  const sum = (of: "errors" | "requests") => (hour.data ?? []).reduce((all, it) => all + it[of], 0);
  const [errors, requests] = [sum("errors"), sum("requests")];
  const facts = [
    {
      name: t.traffic.requests,
      value: now ? rate(now.req_per_sec) : NONE,
      note: now && t.traffic.active(format.integer(now.active_requests)),
      of: (it: Throughput) => it.req_per_sec,
    },
    {
      name: t.traffic.output,
      value: now ? rate(now.generation_tokens_per_sec) : NONE,
      of: (it: Throughput) => it.generation_tokens_per_sec,
    },
    {
      name: t.traffic.input,
      value: now ? rate(now.prompt_tokens_per_sec) : NONE,
      of: (it: Throughput) => it.prompt_tokens_per_sec,
    },
    {
      name: t.traffic.latency,
      value: time(now?.latency_p50_ms),
      note: now?.latency_p95_ms != null && t.traffic.p95(time(now.latency_p95_ms)),
      of: (it: Throughput) => it.latency_p50_ms,
    },
    {
      name: t.traffic.ttft,
      value: time(now?.ttft_p50_ms),
      note: now?.ttft_p95_ms != null && t.traffic.p95(time(now.ttft_p95_ms)),
      of: (it: Throughput) => it.ttft_p50_ms,
    },
  ];
  if (error && !data)
    return (
      <Panel title={t.traffic.title}>
        <ErrorState error={error} onRetry={refetch} />
      </Panel>
    );
  return (
    <Panel title={t.traffic.title} note={t.traffic.note}>
      <div className="grid grid-cols-2 gap-x-6 gap-y-4 sm:grid-cols-3 xl:grid-cols-6">
        {facts.map((it) => (
          <Fact key={it.name} label={it.name} value={it.value} note={it.note || "\u00a0"}>
            <Sparkline values={course(it.of)} label={t.traffic.label(it.name, it.value)} />
          </Fact>
        ))}
        <Fact
          label={t.traffic.errors}
          value={requests > 0 ? format.percent((errors / requests) * 100) : NONE}
          note={
            requests > 0
              ? t.traffic.ofRequests(format.compact(errors), format.compact(requests))
              : t.traffic.noRequests
          }
        >
          <Sparkline
            bars
            values={requests > 0 ? (hour.data ?? []).map((it) => it.errors) : []}
            label={t.traffic.label(t.traffic.errors, format.integer(errors))}
          />
        </Fact>
      </div>
    </Panel>
  );
}
