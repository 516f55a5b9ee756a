import type { Settings } from "@/data/model-files";
import { useFormat } from "@/i18n";
import { Field } from "@/kit/field";
import { NumberInput } from "@/kit/inputs";
import { Slider } from "@/kit/slider";
import { tokens } from "@/parts/models/verdict";
import { useT } from "./t";

type CapacityProps = {
  engine: string;
  settings: Settings;
  /** The context that the model was made for, if it says so. */
  longest: number | null;
  onChange: (name: string, to: unknown) => void;
};

const numberOf = (value: unknown): number | null => (typeof value === "number" ? value : null);

/** How much context a model gets, and how many users at the same time: what its memory depends on most. */
export function Capacity({ engine, settings, longest, onChange }: CapacityProps) {
  const t = useT();
  const format = useFormat();
  const llama = engine === "llamacpp";
  const [context, users] = llama ? ["context_size", "parallel_slots"] : ["max_model_len", "max_num_seqs"];
  const value = numberOf(settings[context]);
  const most = Math.max(10, Math.ceil(Math.log2(llama ? (longest ?? 131_072) * 8 : (longest ?? 131_072))));
  const power = value && value > 0 ? Math.log2(value) : llama ? 13 : most;
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <div className="min-w-0">
        <Field label={t.context} unit={llama ? t.contextShared : t.contextHelp}>
          <NumberInput
            value={value}
            onValue={(to) => onChange(context, to ?? undefined)}
            integer
            min={0}
            step={1024}
            placeholder={llama ? format.integer(8192) : longest ? format.integer(longest) : t.own}
          />
        </Field>
        <Slider
          label={t.context}
          min={9}
          max={most}
          value={Math.min(most, Math.max(9, Math.round(power)))}
          valueText={(at) => tokens(2 ** at, format)}
          onValue={(to) => onChange(context, 2 ** to)}
        />
      </div>
      <div className="min-w-0">
        <Field label={t.users}>
          <NumberInput
            value={numberOf(settings[users])}
            onValue={(to) => onChange(users, to ?? undefined)}
            integer
            min={1}
            placeholder={llama ? "4" : "256"}
          />
        </Field>
        <Slider
          label={t.users}
          min={1}
          max={llama ? 16 : 256}
          value={Math.min(llama ? 16 : 256, numberOf(settings[users]) ?? (llama ? 4 : 256))}
          onValue={(to) => onChange(users, to)}
        />
      </div>
    </div>
  );
}
