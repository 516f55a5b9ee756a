import type { Item } from "@/api/types";
import { type Segment, StackedBar } from "@/charts/stacked-bar";
import { holders, useGpus, useHost } from "@/data/system";
import { useFormat } from "@/i18n";
import { Meter } from "@/kit/bars";
import { ErrorState } from "@/kit/error-state";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useT } from "./t";

/** GPUs, split by who holds their memory, and the host. */
export function Machine() {
  const t = useT();
  const format = useFormat();
  const host = useHost();
  const gpus = useGpus();
  const share = (used: number | null, all: number | null) => (used !== null && all ? used / all : null);
  const ofAll = (used: number | null, all: number | null) =>
    t.machine.of(used === null ? "–" : format.mebibytes(used), all === null ? "–" : format.mebibytes(all));
  return (
    <Panel
      title={t.machine.title}
      actions={
        <Link to="/system" className="text-sm">
          {t.machine.more}
        </Link>
      }
    >
      <div className="flex flex-col gap-5">
        {gpus.data?.map((it) => (
          <Gpu key={it.index} gpu={it} />
        ))}
        {gpus.data?.length === 0 && <p className="text-ink-3 text-sm">{t.machine.noGpu}</p>}
        {host.error && !host.data && <ErrorState error={host.error} onRetry={host.refetch} />}
        {!host.data && !host.error && <Skeleton className="h-32" />}
        {host.data && (
          <>
            <Meter
              label={t.machine.cpu}
              // A busy processor is no fault.
              warnAt={2}
              badAt={2}
              value={host.data.cpu_util_pct === null ? null : host.data.cpu_util_pct / 100}
              text={`${host.data.cpu_util_pct === null ? "–" : format.percent(Math.round(host.data.cpu_util_pct))} · ${t.machine.cores(format.integer(host.data.cpu_count))}`}
            />
            <Meter
              label={t.machine.memory}
              value={share(host.data.mem_used_mb, host.data.mem_total_mb)}
              text={ofAll(host.data.mem_used_mb, host.data.mem_total_mb)}
            />
            {host.data.disks.map((disk) => (
              <Meter
                key={disk.holds.join()}
                label={t.machine.disk(disk.holds.map((it) => t.machine.holds[it]).join(", "))}
                // What the file system keeps for root is neither used nor free: the gateway knows the share that counts.
                value={disk.used_pct / 100}
                text={t.machine.full(
                  ofAll(disk.used_mb, disk.total_mb),
                  format.percent(Math.round(disk.used_pct)),
                )}
              />
            ))}
          </>
        )}
      </div>
    </Panel>
  );
}

const COLORS = [1, 2, 3, 4, 5, 6] as const;

function Gpu({ gpu }: { gpu: Item<"listGpus"> }) {
  const t = useT();
  const format = useFormat();
  const { mem_total_mb: total, mem_used_mb: used } = gpu;
  const name = t.machine.gpu(gpu.index, gpu.name);
  const { models, other, unreported } = holders(gpu);
  const segment = (id: string, label: string, value: number, color: Segment["color"]): Segment => ({
    id,
    label,
    value,
    text: format.mebibytes(value),
    color,
  });
  const segments = [
    ...[...models].map(([model, value], index) =>
      segment(`model ${model}`, model, value, COLORS[index % 6] ?? 1),
    ),
    segment("other", t.machine.otherProcesses, other, "other"),
    segment("driver", t.machine.driver, unreported, "other"),
  ];
  const notes = [
    gpu.util_pct === null ? "" : format.percent(gpu.util_pct),
    gpu.temperature_c === null ? "" : `${gpu.temperature_c}\u202f°C`,
    gpu.power_w === null ? "" : `${Math.round(gpu.power_w)}\u202fW`,
  ].filter(Boolean);
  return (
    <div className="min-w-0">
      <div className="mb-1 flex justify-between gap-3 text-sm">
        <span className="truncate">{name}</span>
        <span className="whitespace-nowrap text-ink-2">{notes.join(" · ")}</span>
      </div>
      {total === null ? (
        <p className="text-ink-3 text-sm">{t.machine.unknownMemory}</p>
      ) : (
        <>
          <StackedBar label={name} segments={segments} total={total} />
          <p className="mt-1 text-ink-2 text-sm">
            {t.machine.of(format.mebibytes(used ?? 0), format.mebibytes(total))}
          </p>
        </>
      )}
    </div>
  );
}
