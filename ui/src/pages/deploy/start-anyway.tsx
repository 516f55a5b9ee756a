import type { Schema } from "@/api/types";
import type { Settings } from "@/data/model-files";
import { useGpus, useHost } from "@/data/system";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { Checks } from "@/parts/models/checks";
import { useHolders } from "@/parts/models/memory-bar";
import { useT as useModelT } from "@/parts/models/t";
import { useT } from "./t";

type DryRun = Schema<"DryRun">;
const GIB = 1024;

/** What speaks against a start: errors, and memory that is not there. */
export function reasonsAgainst(preview: DryRun): DryRun["warnings"] {
  const tooLarge = preview.vram_estimate?.fits === false;
  return preview.warnings.filter(
    (it) => it.severity === "error" || (tooLarge && it.category === "vram" && it.severity === "warning"),
  );
}

/** Whether the gateway would not take the record at all: one of its names is another model's. */
export const isRefused = ({ warnings }: DryRun): boolean =>
  warnings.some((it) => it.severity === "error" && it.category === "name");

type StartAnywayProps = { preview: DryRun; settings: Settings; onClose: () => void; onStart: () => void };

/** Says what would happen if a model that a check speaks against were started, and starts it. */
export function StartAnyway({ preview, settings, onClose, onStart }: StartAnywayProps) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const again = settings.restart_policy === "on_failure" ? Number(settings.restart_limit ?? 5) : 0;
  const memory = useMemoryEnds(preview.vram_estimate);
  return (
    <Dialog
      open
      onClose={onClose}
      title={t.anywayTitle}
      description={t.anywayText}
      size="md"
      footer={
        <>
          <Button onClick={onClose}>{c.do.cancel}</Button>
          <Button
            look="primary"
            onClick={() => {
              onClose();
              onStart();
            }}
          >
            {t.anyway}
          </Button>
        </>
      }
    >
      <Checks preview={{ ...preview, warnings: reasonsAgainst(preview) }} />
      <h3 className="font-medium text-sm">{t.anywayHappens}</h3>
      <ol aria-label={t.anywayHappens} className="flex list-decimal flex-col gap-1.5 pl-5 text-sm">
        {[
          t.anywaySaved,
          ...(memory.length > 0 ? memory : [t.anywayEnds]),
          again > 0 ? t.anywayAgain(format.integer(again)) : t.anywayStays,
        ].map((it) => (
          <li key={it} className="max-w-[72ch] break-words">
            {it}
          </li>
        ))}
      </ol>
    </Dialog>
  );
}

/** How a start ends for which memory is missing: a sentence for each GPU that lacks some, with who holds the rest, and for RAM. */
function useMemoryEnds(estimate: DryRun["vram_estimate"]): string[] {
  const t = useT();
  const m = useModelT();
  const format = useFormat();
  const gpus = useGpus().data ?? [];
  const { data: host } = useHost();
  const holdersOf = useHolders();
  if (estimate?.fits !== false) return [];
  const size = (mebibytes: number) => format.mebibytes(mebibytes);
  const ends = estimate.gpu_indexes.flatMap((index, place): string[] => {
    const gpu = gpus.find((it) => it.index === index);
    const need = (estimate.per_gpu_gb[place] ?? 0) * GIB;
    if (!gpu || gpu.mem_total_mb === null) return [];
    const free = gpu.mem_total_mb - (gpu.mem_used_mb ?? 0);
    if (need <= free) return [];
    const held = holdersOf(gpu)
      .filter((it) => it.id !== "rest")
      .map((it) => `${it.label} (${size(it.held)})`);
    const lacks = t.anywayGpu(m.memory.gpu(index, gpu.name), size(need), size(free));
    return [held.length > 0 ? `${lacks} ${t.anywayHolds(format.list(held))}` : lacks];
  });
  const free = estimate.host_ram_available_gb;
  if (free !== null && estimate.host_ram_gb > free)
    ends.push(
      t.anywayRam(
        size(estimate.host_ram_gb * GIB),
        size(free * GIB),
        host?.mem_total_mb ? size(host.mem_total_mb) : "–",
      ),
    );
  return ends.length > 0 ? ends : [t.anywayShare];
}
