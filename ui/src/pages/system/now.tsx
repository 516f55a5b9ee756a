import type { Answer } from "@/api/types";
import { useFormat } from "@/i18n";
import { Meter } from "@/kit/bars";
import { ErrorState } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useT } from "./t";

export type Host = Answer<"getHostSummary">;
type Props = { host: { data: Host | undefined; error: unknown; refetch: () => unknown } };

/** The host at this moment: processors, memory, disks, and the gateway's own process. */
export function Now({ host }: Props) {
  const t = useT();
  return (
    <Panel title={t.now}>
      {host.data ? (
        <Figures host={host.data} />
      ) : host.error ? (
        <ErrorState error={host.error} onRetry={() => void host.refetch()} />
      ) : (
        <Skeleton className="h-56" />
      )}
    </Panel>
  );
}

function Figures({ host }: { host: Host }) {
  const t = useT();
  const format = useFormat();
  const share = (used: number | null, all: number | null) => (used !== null && all ? used / all : null);
  const of = (used: number | null, all: number | null) =>
    t.of(used === null ? "–" : format.mebibytes(used), all === null ? "–" : format.mebibytes(all));
  const count = (value: number | null) => (value === null ? "–" : format.integer(value));
  const { gateway, cpu_util_pct: cpu } = host;
  return (
    <div className="flex flex-col gap-4">
      <Meter
        label={t.cpu}
        // A busy processor is no fault.
        warnAt={2}
        badAt={2}
        value={cpu === null ? null : cpu / 100}
        text={`${cpu === null ? "–" : format.percent(Math.round(cpu))} · ${t.cores(format.integer(host.cpu_count))}`}
      />
      <Meter
        label={t.memory}
        value={share(host.mem_used_mb, host.mem_total_mb)}
        text={of(host.mem_used_mb, host.mem_total_mb)}
      />
      {Boolean(host.swap_total_mb) && (
        <Meter
          label={t.swap}
          value={share(host.swap_used_mb, host.swap_total_mb)}
          text={of(host.swap_used_mb, host.swap_total_mb)}
        />
      )}
      {host.disks.map((disk) => (
        <Meter
          key={disk.holds.join()}
          label={t.diskOf(disk.holds.map((it) => t.holds[it]).join(", "))}
          value={disk.used_pct / 100}
          text={t.full(of(disk.used_mb, disk.total_mb), format.percent(Math.round(disk.used_pct)))}
        />
      ))}
      <Facts
        facts={[
          [t.load, host.load_avg?.map((it) => format.decimal(it, 2)).join(" · ") ?? "–"],
          [t.upSince, host.uptime_sec === null ? "–" : format.duration(host.uptime_sec * 1000)],
        ]}
      />
      <div>
        <h3 className="mb-1.5 font-medium text-sm">{t.gateway}</h3>
        <Facts
          facts={[
            [t.rss, gateway.rss_mb === null ? "–" : format.mebibytes(gateway.rss_mb)],
            [t.fds, count(gateway.open_fds)],
            [t.threads, count(gateway.threads)],
            [
              t.cpuSeconds,
              gateway.cpu_seconds === null ? "–" : format.duration(Math.round(gateway.cpu_seconds * 1000)),
            ],
          ]}
        />
      </div>
    </div>
  );
}
