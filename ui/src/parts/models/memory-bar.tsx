import type { Item, Schema } from "@/api/types";
import { type Segment, StackedBar } from "@/charts/stacked-bar";
import { holders, useGpus, useHost } from "@/data/system";
import { useFormat } from "@/i18n";
import { contextOf } from "./settings";
import { useT } from "./t";

type Estimate = Schema<"MemoryEstimate">;
const GIB = 1024;

/** What a model needs on each GPU and in RAM, beside who holds the rest. It moves as settings change. */
export function MemoryBars({ preview, own }: { preview: Schema<"DryRun">; own?: string }) {
  const t = useT();
  const format = useFormat();
  const gpus = useGpus().data ?? [];
  const { vram_estimate: estimate } = preview;
  if (!estimate) return <p className="text-ink-2 text-sm">{t.memory.unknown}</p>;
  const { layers_on_gpus: layers, notes, gpu_indexes: indexes } = estimate;
  return (
    <div className="flex flex-col gap-4">
      {indexes.map((index, place) => (
        <GpuBar
          key={index}
          index={index}
          gpu={gpus.find((it) => it.index === index)}
          need={estimate.gpu_parts[place]}
          own={own}
        />
      ))}
      {(indexes.length === 0 || estimate.host_ram_gb >= 0.01) && <RamBar estimate={estimate} />}
      <ul className="flex flex-col gap-0.5 text-ink-2 text-sm">
        <ContextLine preview={preview} />
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

/** The one context that counts, and why it is no other. */
function ContextLine({ preview }: { preview: Schema<"DryRun"> }) {
  const t = useT();
  const format = useFormat();
  const { each, users, chosen, trained, fits } = contextOf(preview);
  if (each === null) return null;
  const shared = users !== null && users > 1;
  const reasons = [
    trained !== null && t.memory.trained(format.integer(trained)),
    fits !== null && (shared ? t.memory.fitInAll : t.memory.fit)(format.integer(fits)),
    chosen !== null && (shared ? t.memory.chosenInAll : t.memory.chosen)(format.integer(chosen)),
  ].filter((it) => it !== false);
  return <li>{t.memory.context(format.integer(each), reasons.join(", "))}</li>;
}

type Parts = Schema<"GpuParts">;

/** Returns what of a model lies in RAM: all that its GPUs don't hold. */
export function partsInRam(estimate: Estimate): Parts {
  const rest = (name: keyof Parts) =>
    Math.max(
      0,
      estimate.gpu_parts.reduce((left, it) => left - it[name], estimate[name]),
    );
  return {
    weights_gb: rest("weights_gb"),
    kv_cache_gb: rest("kv_cache_gb"),
    overhead_gb: rest("overhead_gb"),
  };
}

const sumOf = (parts: Parts) => parts.weights_gb + parts.kv_cache_gb + parts.overhead_gb;

/** Writes sizes in MiB as parts of a bar. */
function useSegment() {
  const format = useFormat();
  return (id: string, label: string, value: number, color: Segment["color"]): Segment => ({
    id,
    label,
    value,
    text: format.mebibytes(value),
    color,
  });
}

/** The parts of a model's need in one memory. */
function useNeed(parts: Parts): Segment[] {
  const t = useT();
  const segment = useSegment();
  return [
    segment("weights", t.memory.weights, parts.weights_gb * GIB, 1),
    segment("cache", t.memory.cache, parts.kv_cache_gb * GIB, 2),
    segment("overhead", t.memory.overhead, parts.overhead_gb * GIB, 3),
  ];
}

type Gpu = Item<"listGpus">;
const NOTHING: Parts = { weights_gb: 0, kv_cache_gb: 0, overhead_gb: 0 };

/** Who holds memory of a GPU now, in MiB, as people read it: models by name, then what no model is known for. `own` is left out. */
export function useHolders() {
  const t = useT();
  return (gpu: Gpu, own?: string): { id: string; label: string; held: number; model: boolean }[] => {
    const { models, other, unreported } = holders(gpu);
    return [
      ...[...models].map(([name, held]) => ({ id: `of ${name}`, label: name, held, model: true })),
      { id: "other", label: t.memory.other, held: other, model: false },
      { id: "rest", label: t.memory.unreported, held: unreported, model: false },
    ].filter((it) => it.held > 0 && !(it.model && it.label === own));
  };
}

type GpuBarProps = { index: number; gpu: Gpu | undefined; need: Parts | undefined; own?: string };

function GpuBar({ index, gpu, need = NOTHING, own }: GpuBarProps) {
  const t = useT();
  const segment = useSegment();
  const segments = useNeed(need);
  const holdersOf = useHolders();
  const others = (gpu ? holdersOf(gpu, own) : []).map((it, place) =>
    segment(it.id, it.label, it.held, it.model ? (([4, 5, 6] as const)[place % 3] ?? 4) : "other"),
  );
  return (
    <Bar
      label={t.memory.gpu(index, gpu?.name ?? "")}
      need={sumOf(need)}
      segments={[...segments, ...others]}
      total={gpu?.mem_total_mb ?? null}
    />
  );
}

function RamBar({ estimate }: { estimate: Estimate }) {
  const t = useT();
  const segment = useSegment();
  const { data: host } = useHost();
  const parts = partsInRam(estimate);
  const segments = useNeed(parts);
  const used = host?.mem_used_mb ?? null;
  const others = used === null ? [] : [segment("used", t.memory.usedNow, used, "other")];
  return (
    <Bar
      label={t.memory.ram}
      need={sumOf(parts)}
      segments={[...segments, ...others]}
      total={host?.mem_total_mb ?? null}
    />
  );
}

type BarProps = { label: string; need: number; segments: Segment[]; total: number | null };

function Bar({ label, need, segments, total }: BarProps) {
  const t = useT();
  const format = useFormat();
  const segment = useSegment();
  const held = segments.reduce((sum, it) => sum + it.value, 0);
  const needed = format.mebibytes(need * GIB);
  const free = total === null ? null : Math.max(0, total - held + need * GIB);
  const left = total === null ? 0 : Math.max(0, total - held);
  const all = left > 0 ? [...segments, segment("free", t.memory.free, left, "free")] : segments;
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
