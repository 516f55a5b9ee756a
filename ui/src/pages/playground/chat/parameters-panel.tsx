import type { Constraints } from "@/data/inference";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { Checkbox } from "@/kit/choices";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { NumberInput, TextArea } from "@/kit/inputs";
import { useT } from "../t";
import { DEFAULTS, numberFields, type Parameters, toolsOf } from "./parameters";
import { Presets } from "./presets";

type ParametersPanelProps = {
  parameters: Parameters;
  onParameters: (to: Parameters) => void;
  /** What each of the models in the chat allows. */
  constraints: (Constraints | undefined)[];
  /** What the gateway said of the last question. */
  error: unknown;
};

const NAMES = [
  "temperature",
  "max_tokens",
  "top_p",
  "top_k",
  "min_p",
  "presence_penalty",
  "frequency_penalty",
  "repetition_penalty",
  "seed",
  "stop",
  "tools",
] as const;

/** What is sent with every question. A field that is empty is left to the model, whose own value stands there in grey. */
export function ParametersPanel({ parameters, onParameters, constraints, error }: ParametersPanelProps) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const errors = formErrors(error, NAMES);
  // With several models: what one of them takes. The request of each has only what it knows.
  const fields = constraints
    .map(numberFields)
    .reduce((most, it) => (it.length > most.length ? it : most), numberFields(constraints[0]));
  const noSystem = constraints.length > 0 && constraints.every((it) => it?.supports_system_prompt === false);
  const change = (to: Partial<Parameters>) => onParameters({ ...parameters, ...to });
  return (
    <form className="flex flex-col gap-4" onSubmit={(event) => event.preventDefault()}>
      <Presets parameters={parameters} onParameters={onParameters} />
      {noSystem ? (
        <p className="text-ink-2 text-sm">{t.parameters.noSystem}</p>
      ) : (
        <Field label={t.parameters.system}>
          <TextArea
            dir="auto"
            rows={4}
            value={parameters.system}
            onValue={(system) => change({ system })}
            placeholder={t.parameters.systemHint}
          />
        </Field>
      )}
      <div className="grid grid-cols-2 gap-3">
        {fields.map(({ name, fallback, max, min, ...limits }) => (
          <Field
            key={name}
            label={t.parameters.names[name]}
            error={errors.of(name) ?? rangeError(parameters[name], min, max)}
          >
            <NumberInput
              {...limits}
              min={min}
              max={max}
              value={parameters[name]}
              onValue={(to) => change({ [name]: to })}
              placeholder={fallback === undefined ? t.parameters.ofModel : format.decimal(fallback, 4)}
            />
          </Field>
        ))}
      </div>
      <Field label={t.parameters.stop} help={t.parameters.stopHelp} error={errors.of("stop")}>
        <TextArea rows={1} mono value={parameters.stop} onValue={(stop) => change({ stop })} />
      </Field>
      <Checkbox
        checked={parameters.json}
        onChecked={(json) => change({ json })}
        label={t.parameters.json}
        help={t.parameters.jsonHelp}
      />
      <Field
        label={t.parameters.tools}
        help={t.parameters.toolsHelp}
        error={errors.of("tools") ?? (badTools(parameters.tools) ? t.parameters.badTools : undefined)}
      >
        <TextArea
          rows={2}
          mono
          spellCheck={false}
          value={parameters.tools}
          onValue={(tools) => change({ tools })}
          placeholder='[{"type": "function", …}]'
        />
      </Field>
      <div>
        <Button size="sm" onClick={() => onParameters(DEFAULTS)}>
          {c.do.reset}
        </Button>
      </div>
    </form>
  );

  function rangeError(value: number | null, min: number, max: number | undefined): string | undefined {
    if (value === null) return undefined;
    if (value < min) return c.errors.atLeast(format.decimal(min, 4));
    if (max !== undefined && value > max) return c.errors.atMost(format.decimal(max, 4));
    return undefined;
  }
}

function badTools(text: string): boolean {
  try {
    toolsOf(text);
    return false;
  } catch {
    return true;
  }
}
