import type { Item, Schema } from "@/api/types";
import { type Segment, StackedBar } from "@/charts/stacked-bar";
import { useGpus, useHost } from "@/data/system";
import { useFormat } from "@/i18n";
import { useT } from "./t";

type Estimate = Schema<"MemoryEstimate">;
const GIB = 1024;

/** What a model needs on each GPU and in RAM, beside who holds the rest. It moves as settings change. */
export function MemoryBars({ estimate, own }: { estimate: Estimate | null; own?: string }) {
  const t = useT();
  const format = useFormat();
  const gpus = useGpus().data ?? [];
  if (!estimate) return <p className="text-ink-2 text-sm">{t.memory.unknown}</p>;
  const { max_context_that_fits: most, layers_on_gpus: layers, notes, gpu_indexes: indexes } = estimate;
  return (
    <div className="flex flex-col gap-4">
      {indexes.map((index, place) => {
        const gpu = gpus.find((it) => it.index === index);
        return (
          <GpuBar
            key={index}
            index={index}
            gpu={gpu}
            need={estimate.per_gpu_gb[place] ?? 0}
            parts={indexes.length === 1 ? partsOnGpu(estimate) : null}
            own={own}
          />
        );
      })}
      {(indexes.length === 0 || estimate.host_ram_gb >= 0.01) && (
        <RamBar estimate={estimate} alone={indexes.length === 0} />
      )}
      <ul className="flex flex-col gap-0.5 text-ink-2 text-sm">
        {most !== null && <li>{t.memory.most(format.integer(most))}</li>}
        {layers !== null && <li>{t.memory.layers(format.integer(layers))}</li>}
      </ul>
      {notes.length > 0 && (
        <details className="text-sm">
          <summary className="inline-block rounded-sm text-ink-2 hover:text-ink">{t.memory.notes}</summary>
          <ul className="mt-1 list-disc pl-5 text-ink-2">
            {notes.map((it) => (
              <li key={it} className="max-w-[72ch] break-words">
                {it}
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

type Parts = Pick<Estimate, "weights_gb" | "kv_cache_gb" | "overhead_gb">;

/** What of a model lies on its one GPU: with all layers there, RAM has the input embeddings only, which are weights. */
export function partsOnGpu(estimate: Estimate): Parts | null {
  const { weights_gb, kv_cache_gb, overhead_gb, host_ram_gb, layers_on_gpus } = estimate;
  const onGpu = weights_gb - host_ram_gb;
  return layers_on_gpus === null && onGpu > 0 ? { weights_gb: onGpu, kv_cache_gb, overhead_gb } : null;
}

/** The parts of a model's need, where all of it lies in one memory; else one part. Sizes are MiB. */
function useNeed(need: number, parts: Parts | null): Segment[] {
  const t = useT();
  const format = useFormat();
  const of = (id: string, label: string, gib: number, color: Segment["color"]): Segment => ({
    id,
    label,
    value: gib * GIB,
    text: format.mebibytes(gib * GIB),
    color,
  });
  if (!parts) return [of("need", t.memory.thisModel, need, 1)];
  return [
    of("weights", t.memory.weights, parts.weights_gb, 1),
    of("cache", t.memory.cache, parts.kv_cache_gb, 2),
    of("overhead", t.memory.overhead, parts.overhead_gb, 3),
  ];
}

type GpuBarProps = {
  index: number;
  gpu: Item<"listGpus"> | undefined;
  need: number;
  parts: Parts | null;
  own?: string;
};

function GpuBar({ index, gpu, need, parts, own }: GpuBarProps) {
  const t = useT();
  const format = useFormat();
  const segments = useNeed(need, parts);
  const name = t.memory.gpu(index, gpu?.name ?? "");
  const { mem_total_mb: total = null, mem_used_mb: used = null, processes = [] } = gpu ?? {};
  const holders = new Map<string, number>();
  for (const it of processes) {
    const who = it.served_name ?? t.memory.other;
    if (who !== own) holders.set(who, (holders.get(who) ?? 0) + it.mem_mb);
  }
  const mine = processes.filter((it) => it.served_name === own).reduce((sum, it) => sum + it.mem_mb, 0);
  const named = [...holders.values()].reduce((sum, it) => sum + it, 0);
  const rest = Math.max(0, (used ?? 0) - named - mine);
  const others: Segment[] = [...holders].map(([who, mb], place) => ({
    id: `of ${who}`,
    label: who,
    value: mb,
    text: format.mebibytes(mb),
    color: who === t.memory.other ? "other" : place % 2 === 0 ? 4 : 5,
  }));
  if (rest > 0)
    others.push({
      id: "rest",
      label: t.memory.usedNow,
      value: rest,
      text: format.mebibytes(rest),
      color: "other",
    });
  return <Bar label={name} need={need} segments={[...segments, ...others]} total={total} />;
}

function RamBar({ estimate, alone }: { estimate: Estimate; alone: boolean }) {
  const t = useT();
  const format = useFormat();
  const { data: host } = useHost();
  const need = alone ? estimate.total_gb : estimate.host_ram_gb;
  const segments = useNeed(need, alone ? estimate : null);
  const total = host?.mem_total_mb ?? null;
  const used = host?.mem_used_mb ?? null;
  const others: Segment[] =
    used === null
      ? []
      : [{ id: "used", label: t.memory.usedNow, value: used, text: format.mebibytes(used), color: "other" }];
  return <Bar label={t.memory.ram} need={need} segments={[...segments, ...others]} total={total} />;
}

type BarProps = { label: string; need: number; segments: Segment[]; total: number | null };

function Bar({ label, need, segments, total }: BarProps) {
  const t = useT();
  const format = useFormat();
  const held = segments.reduce((sum, it) => sum + it.value, 0);
  const needed = format.mebibytes(need * GIB);
  const free = total === null ? null : Math.max(0, total - held + need * GIB);
  const left = total === null ? 0 : Math.max(0, total - held);
  const all: Segment[] =
    left > 0
      ? [
          ...segments,
          { id: "free", label: t.memory.free, value: left, text: format.mebibytes(left), color: "free" },
        ]
      : segments;
  return (
    <div className="min-w-0">
      <div className="mb-1 flex flex-wrap justify-between gap-x-3 text-sm">
        <span className="min-w-0 truncate font-medium">{label}</span>
        <span className="text-ink-2">
          {free === null ? t.memory.neededOnly(needed) : t.memory.needed(needed, format.mebibytes(free))}
        </span>
      </div>
      <StackedBar segments={all} label={label} total={total ?? undefined} />
    </div>
  );
}
