import type { Schema } from "@/api/types";
import { useFormat } from "@/i18n";
import type { Format } from "@/i18n/format";
import { StateShape, type Tone } from "@/kit/badge";
import { capacityOf } from "./settings";
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
  const say = (tone: Tone, text: string, why?: string) => (
    <span className="inline-flex min-w-0 items-center gap-1.5 text-sm" title={why}>
      <StateShape tone={tone} className={COLOR[tone]} />
      <span>{text}</span>
    </span>
  );
  if (!preview) return error ? say("idle", t.verdict.failed) : say("busy", t.verdict.checking);
  const estimate = preview.vram_estimate;
  const broken = preview.warnings.find((it) => it.severity === "error" && it.category !== "vram");
  if (broken) return say("bad", t.verdict.error, `${broken.title}: ${broken.message}`);
  const why = preview.warnings.find((it) => it.category === "vram")?.message ?? estimate?.notes[0];
  if (!estimate || estimate.fits === null) return say("idle", t.verdict.unknown, why);
  if (!estimate.fits) {
    const need = preview.vram_estimate_gb;
    const free = estimate.available_gb;
    const text =
      need === null || free === null
        ? t.verdict.no
        : t.verdict.noNeeds(format.mebibytes(need * GIB), format.mebibytes(free * GIB));
    const most = estimate.max_context_that_fits;
    return say("bad", most ? `${text}; ${t.verdict.upTo(format.integer(most))}` : text, why);
  }
  const { context, users, shared } = capacityOf(preview.command);
  if (context === null) return say("ok", t.verdict.fits, why);
  if (users === null) return say("ok", t.verdict.fitsWith(tokens(context, format)), why);
  // llama.cpp shares its context between its slots; vLLM's sequences have one each, as far as the cache goes.
  if (!shared) return say("ok", t.verdict.fitsWith(tokens(context, format)), why);
  const each = Math.floor(context / users);
  return say("ok", t.verdict.fitsUsers(tokens(each, format), format.integer(users)), why);
}

const COLOR: Record<Tone, string> = {
  ok: "text-ok",
  busy: "text-busy",
  warn: "text-warn",
  bad: "text-bad",
  idle: "text-ink-3",
};
