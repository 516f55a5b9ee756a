import { Trash2 } from "lucide-react";
import { useRef, useState } from "react";
import { useLocal } from "@/app/local";
import { Button, IconButton } from "@/kit/button";
import { Field } from "@/kit/field";
import { TextInput } from "@/kit/inputs";
import { Select } from "@/kit/select";
import { useT } from "../t";
import { countSet, DEFAULTS, type Parameters } from "./parameters";

/** A system prompt and parameters with a name. */
type Preset = { name: string; parameters: Partial<Parameters> };

const NONE: Preset[] = [];
const LONGEST_NAME = 60;

/** A version before this one may not have known all parameters. */
const whole = (preset: Preset): Parameters => ({ ...DEFAULTS, ...preset.parameters });
const same = (a: Parameters, b: Parameters): boolean =>
  (Object.keys(DEFAULTS) as (keyof Parameters)[]).every((it) => a[it] === b[it]);

/** Keeps the parameters under a name in this browser, and brings them back. */
export function Presets({
  parameters,
  onParameters,
}: {
  parameters: Parameters;
  onParameters: (to: Parameters) => void;
}) {
  const t = useT();
  const [presets, keepPresets] = useLocal<Preset[]>("presets", NONE);
  const [typed, setTyped] = useState("");
  const input = useRef<HTMLInputElement>(null);
  const name = typed.trim();
  const chosen = presets.find((it) => same(whole(it), parameters));
  const without = (gone: string) => presets.filter((it) => it.name !== gone);
  const choose = (to: string) => {
    const preset = presets.find((it) => it.name === to);
    if (preset) onParameters(whole(preset));
  };
  const save = () => {
    keepPresets([...without(name), { name, parameters }].sort((a, b) => a.name.localeCompare(b.name)));
    setTyped("");
    input.current?.focus();
  };
  const remove = (gone: string) => {
    const left = without(gone);
    keepPresets(left.length > 0 ? left : NONE);
    input.current?.focus();
  };
  return (
    <div className="flex flex-col gap-3">
      {presets.length > 0 && (
        <Field label={t.presets.label}>
          <div className="flex gap-1">
            <Select
              value={chosen?.name ?? ""}
              onValue={choose}
              options={[
                { value: "", label: t.presets.none },
                ...presets.map((it) => ({ value: it.name, label: it.name })),
              ]}
            />
            {chosen && (
              <IconButton
                icon={Trash2}
                label={t.presets.remove(chosen.name)}
                onClick={() => remove(chosen.name)}
              />
            )}
          </div>
        </Field>
      )}
      <Field label={t.presets.name} help={t.presets.help}>
        <div className="flex gap-1">
          <TextInput ref={input} dir="auto" maxLength={LONGEST_NAME} value={typed} onValue={setTyped} />
          <Button onClick={save} disabled={name === "" || countSet(parameters) === 0}>
            {t.presets.save}
          </Button>
        </div>
      </Field>
    </div>
  );
}
