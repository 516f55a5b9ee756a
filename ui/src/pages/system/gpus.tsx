import { useState } from "react";
import type { Item } from "@/api/types";
import { type Segment, StackedBar } from "@/charts/stacked-bar";
import { holders, useGpus } from "@/data/system";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorState } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { type Column, Table } from "@/kit/table";
import { useT } from "./t";

type Gpu = Item<"listGpus">;
type Process = Gpu["processes"][number];
const COLORS = [1, 2, 3, 4, 5, 6] as const;

/** Each GPU now, its memory split by who holds it. */
export function Gpus() {
  const t = useT().gpus;
  const gpus = useGpus();
  return (
    <Panel title={t.title}>
      {gpus.error && !gpus.data ? (
        <ErrorState error={gpus.error} onRetry={gpus.refetch} />
      ) : !gpus.data ? (
        <Skeleton className="h-20" />
      ) : gpus.data.length === 0 ? (
        <p className="text-ink-2 text-sm">
          {t.none} <span className="text-ink-3">{t.why}</span>
        </p>
      ) : (
        <div className="flex flex-col gap-6">
          {gpus.data.map((it) => (
            <OneGpu key={it.index} gpu={it} />
          ))}
        </div>
      )}
    </Panel>
  );
}

function OneGpu({ gpu }: { gpu: Gpu }) {
  const all = useT();
  const t = all.gpus;
  const format = useFormat();
  const [open, setOpen] = useState(false);
  const { models, other, unreported } = holders(gpu);
  const segment = (id: string, label: string, value: number, color: Segment["color"]): Segment => ({
    id,
    label,
    value,
    text: format.mebibytes(value),
    color,
  });
  const { mem_total_mb: total, mem_used_mb: used } = gpu;
  const segments = [
    ...[...models].map(([name, value], index) =>
      segment(`model ${name}`, name, value, COLORS[index % 6] ?? 1),
    ),
    segment("other", t.other, other, "other"),
    segment("driver", t.driver, unreported, "other"),
    segment("free", t.free, Math.max(0, (total ?? 0) - (used ?? 0)), "free"),
  ];
  const name = `${all.gpu(String(gpu.index))} · ${gpu.name}`;
  const shown = (value: number | null, unit: string) =>
    value === null ? "–" : `${format.integer(value)}\u202f${unit}`;
  const architecture = [gpu.compute_capability, gpu.architecture].filter(Boolean).join(" · ");
  return (
    <div className="min-w-0">
      <div className="mb-1 flex justify-between gap-3 text-sm">
        <span className="truncate font-medium" title={name}>
          {name}
        </span>
        <span className="whitespace-nowrap text-ink-2">
          {total === null
            ? ""
            : all.of(used === null ? "–" : format.mebibytes(used), format.mebibytes(total))}
        </span>
      </div>
      {total === null ? (
        <p className="text-ink-3 text-sm">{t.noMemory}</p>
      ) : (
        <StackedBar label={name} segments={segments} total={total} />
      )}
      <div className="mt-3">
        <Facts
          facts={[
            [t.use, shown(gpu.util_pct, "%")],
            [t.temperature, shown(gpu.temperature_c, "°C")],
            [t.power, shown(gpu.power_w, "W")],
            [t.capability, architecture || "–"],
            [t.flash, <YesNo key="flash" value={gpu.flash_attention_supported} />],
          ]}
        />
      </div>
      {gpu.processes.length > 0 && (
        <Button
          size="sm"
          look="quiet"
          className="mt-2 -ml-2"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? t.hide : t.processes(format.integer(gpu.processes.length))}
        </Button>
      )}
      {open && <Processes processes={gpu.processes} label={name} />}
    </div>
  );
}

function YesNo({ value }: { value: boolean | null }) {
  const t = useT().capabilities;
  return value === null ? "–" : value ? t.there : t.notThere;
}

function Processes({ processes, label }: { processes: Process[]; label: string }) {
  const t = useT().gpus;
  const format = useFormat();
  const columns: Column<Process>[] = [
    { id: "pid", head: t.process, cell: (it) => String(it.pid) },
    {
      id: "holder",
      head: t.holder,
      cell: (it) =>
        it.model_id === null ? (
          t.other
        ) : (
          <Link to="/models/$id" params={{ id: String(it.model_id) }}>
            <bdi>{it.served_name}</bdi>
          </Link>
        ),
    },
    { id: "memory", head: t.memory, numeric: true, cell: (it) => format.mebibytes(it.mem_mb) },
  ];
  const sorted = processes.toSorted((a, b) => b.mem_mb - a.mem_mb);
  return (
    <Table label={label} columns={columns} list={{ data: sorted, error: null }} rowKey={(it) => it.pid} />
  );
}
