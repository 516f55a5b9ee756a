import type { Schema } from "@/api/types";
import { useT as useCommonT, useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { Prose } from "@/parts/models/prose";
import { useT as useModelT } from "@/parts/models/t";
import { Files } from "./files";
import { useT } from "./t";

type InspectionProps = {
  found: Schema<"Inspection">;
  /** The file or folder that is served. */
  file: string | null;
  onFile: (path: string) => void;
  onAgain: () => void;
};

/** What a folder is: the engine that suits it and why, its facts, its files with a verdict each, and what is wrong with it. */
export function InspectionPanel({ found, file, onFile, onAgain }: InspectionProps) {
  const t = useT();
  const m = useModelT();
  const { engine_recommendation: best } = found;
  const warnings = [
    ...found.warnings,
    ...(found.safetensor_info?.errors ?? []),
    ...(found.safetensor_info?.warnings ?? []),
    // Where nothing can be loaded, each file says why.
    ...found.gguf_groups
      .filter((it) => file === null || it.path === file)
      .flatMap((it) => [...it.errors, ...it.warnings]),
  ];
  return (
    <Panel
      title={found.path === "." ? t.itself : t.inspection(found.path)}
      actions={
        <Button size="sm" onClick={onAgain}>
          {t.again}
        </Button>
      }
    >
      <div className="flex flex-col gap-4">
        <p className="text-sm">
          <span className="font-medium">{m.engine[best.recommended_engine]}.</span>{" "}
          <Prose text={best.reason} />
        </p>
        <FoundFacts found={found} file={file} />
        {found.gguf_groups.length > 1 && <Files found={found} file={file} onFile={onFile} />}
        {warnings.length > 0 && (
          <ul aria-label={t.problems} className="flex flex-col gap-1 text-sm">
            {[...new Set(warnings)].map((it) => (
              <li key={it} className="flex items-start gap-2">
                <StateShape tone="warn" className="mt-1 text-warn" />
                <Prose asIs text={it} className="max-w-[72ch]" />
              </li>
            ))}
          </ul>
        )}
      </div>
    </Panel>
  );
}

/** What the chosen files say of themselves. What they don't say is not shown. */
function FoundFacts({ found, file }: { found: Schema<"Inspection">; file: string | null }) {
  const t = useT();
  const m = useModelT();
  const c = useYesNo();
  const format = useFormat();
  const group = found.gguf_groups.find((it) => it.path === file);
  const gguf = group?.metadata;
  const tensors = found.safetensor_info;
  const number = (value: number | null | undefined) => (value == null ? null : format.integer(value));
  const facts: [string, string | null | undefined][] =
    group || !tensors
      ? [
          [t.task, group && m.task[group.task]],
          [t.fact.architecture, gguf?.architecture],
          [t.fact.parameters, group?.parameter_count ? format.compact(group.parameter_count) : null],
          [t.fact.quantization, group?.quant_type],
          [t.fact.weights, group && format.bytes(group.tensor_bytes ?? group.size_bytes)],
          [t.fact.context, number(gguf?.context_length)],
          [t.fact.layers, number(gguf?.block_count)],
          [t.fact.heads, heads(gguf?.attention_head_count, gguf?.attention_head_count_kv)],
          [t.fact.window, number(gguf?.sliding_window)],
          [t.fact.experts, number(gguf?.expert_count)],
          [t.fact.vocabulary, number(gguf?.vocab_size)],
          [t.fact.template, group && c(group.chat_template)],
        ]
      : [
          [t.task, m.task[tensors.task]],
          [t.fact.architecture, tensors.architecture],
          [t.fact.parameters, tensors.parameter_count ? format.compact(tensors.parameter_count) : null],
          [t.fact.quantization, tensors.quantization ?? tensors.dtype],
          [t.fact.weights, format.bytes(tensors.tensor_bytes ?? tensors.size_bytes)],
          [t.fact.context, number(tensors.context_length)],
          [t.fact.layers, number(tensors.num_layers)],
          [t.fact.heads, heads(tensors.num_attention_heads, tensors.num_key_value_heads)],
          [t.fact.window, number(tensors.sliding_window)],
          [t.fact.experts, number(tensors.num_experts)],
          [t.fact.vocabulary, number(tensors.vocab_size)],
          [t.fact.template, c(tensors.chat_template)],
          [t.fact.modalities, tensors.multimodal ? c(true) : null],
          [t.fact.code, tensors.needs_remote_code ? c(true) : null],
        ];
  const known = facts.flatMap(([name, value]): [string, string][] => (value ? [[name, value]] : []));
  const half = Math.ceil(known.length / 2);
  return (
    <div className="grid gap-x-8 gap-y-1.5 md:grid-cols-2">
      <Facts facts={known.slice(0, half)} />
      <Facts facts={known.slice(half)} />
    </div>
  );
}

function heads(all: number | null | undefined, kv: number | null | undefined): string | null {
  if (all == null) return null;
  return kv == null || kv === all ? String(all) : `${all} (${kv})`;
}

function useYesNo(): (value: boolean) => string {
  const c = useCommonT();
  return (value) => (value ? c.word.yes : c.word.no);
}
