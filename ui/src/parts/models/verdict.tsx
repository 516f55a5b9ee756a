import type { Schema } from "@/api/types";
import { useFormat } from "@/i18n";
import type { Format } from "@/i18n/format";
import { StateShape, type Tone } from "@/kit/badge";
import { contextOf } from "./settings";
import { useT } from "./t";

type DryRun = Schema<"DryRun">;
const GIB = 1024;

/** Returns a number of tokens as people say it: 32 k is 32,768, and 40,000 stays what it is. */
export function tokens(count: number, format: Format): string {
  return count >= 1024 && count % 1024 === 0
    ? `${format.integer(count / 1024)}\u202fk`
    : format.integer(count);
}

/** Whether a model fits into this machine, in one line; "unknown" rather than a guess. */
export function Verdict({ preview, error }: { preview: DryRun | undefined; error?: unknown }) {
  const t = useT();
  const format = useFormat();
  if (!preview)
    return <Said tone={error ? "idle" : "busy"} text={error ? t.verdict.failed : t.verdict.checking} />;
  const { tone, text } = memoryOf(preview, t, format);
  const why =
    preview.warnings.find((it) => it.category === "vram")?.message ?? preview.vram_estimate?.notes[0];
  const broken = preview.warnings.find(
    (it) => it.severity === "error" && !["vram", "name"].includes(it.category),
  );
  if (broken) {
    // What can't be loaded fits nowhere.
    const said = broken.category === "files" || broken.field === "local_path";
    return <Said tone="bad" text={said ? broken.title : `${text} · ${broken.title}`} why={broken.message} />;
  }
  return <Said tone={tone} text={text} why={why} />;
}

function Said({ tone, text, why }: { tone: Tone; text: string; why?: string }) {
  return (
    <span className="inline-flex min-w-0 items-start gap-1.5 text-sm" title={why}>
      <StateShape tone={tone} className={`mt-1 ${COLOR[tone]}`} />
      <span className="min-w-0 break-words">{text}</span>
    </span>
  );
}

type Texts = ReturnType<typeof useT>;

function memoryOf(preview: DryRun, t: Texts, format: Format): { tone: Tone; text: string } {
  const { vram_estimate: estimate, vram_estimate_gb: need } = preview;
  if (!estimate || estimate.fits === null) return { tone: "idle", text: t.verdict.unknown };
  if (!estimate.fits) {
    const { available_gb: free, max_context_that_fits: most, host_ram_gb: ram } = estimate;
    const size = (gib: number) => format.mebibytes(gib * GIB);
    const ramFree = estimate.host_ram_available_gb;
    const lacksRam = estimate.gpu_indexes.length > 0 && ramFree !== null && ram > ramFree;
    const text = lacksRam
      ? t.verdict.noRam(size(ram), size(ramFree))
      : need === null || free === null || need <= free
        ? t.verdict.no
        : t.verdict.noNeeds(size(need), size(free));
    return { tone: "bad", text: most ? `${text}; ${t.verdict.upTo(format.integer(most))}` : text };
  }
  const { each, users } = contextOf(preview);
  if (each === null) return { tone: "ok", text: t.verdict.fits };
  if (users === null) return { tone: "ok", text: t.verdict.fitsWith(tokens(each, format)) };
  return { tone: "ok", text: t.verdict.fitsUsers(tokens(each, format), format.integer(users)) };
}

const COLOR: Record<Tone, string> = {
  ok: "text-ok",
  busy: "text-busy",
  warn: "text-warn",
  bad: "text-bad",
  idle: "text-ink-3",
};
