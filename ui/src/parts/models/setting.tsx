import { RotateCcw } from "lucide-react";
import { useState } from "react";
import type { ModelField } from "@/data/model-files";
import { useFormat } from "@/i18n";
import { Badge } from "@/kit/badge";
import { Button, IconButton } from "@/kit/button";
import { Field } from "@/kit/field";
import { capitalised } from "@/kit/sentence";
import { FieldControl } from "./field-control";
import { boundsOf, kindOf } from "./field-schema";
import { Prose } from "./prose";
import { defaultOf, shown } from "./settings";
import { useT } from "./t";

type SettingProps = {
  field: ModelField;
  task: string;
  value: unknown;
  /** It is not what it was when the form was opened. */
  changed: boolean;
  onValue: (to: unknown) => void;
  onReset: () => void;
  error?: string;
  /** A better value than the default, for this model; `undefined`: there is none. */
  tuned: unknown;
  /** One may see it and not change it. */
  locked?: boolean;
};

/** One setting: its input, what it does, what counts without it, and a way back if it was changed. */
export function Setting(props: SettingProps) {
  const { field, task, value, changed, onValue, onReset, error, tuned, locked } = props;
  const t = useT();
  const [bad, setBad] = useState<string>();
  const standard = defaultOf(field, task);
  const known = standard !== null && standard !== undefined;
  const format = useFormat();
  const words = (it: unknown) => {
    if (typeof it === "number") return format.decimal(it, 6);
    return it === true ? t.settings.on : it === false ? t.settings.off : shown(it);
  };
  const placeholder = known
    ? t.settings.default(words(standard))
    : ["source", "chat", "adapters", "expert"].includes(field.group) || kindOf(field) === "integers"
      ? t.settings.notSet
      : t.settings.engineChooses;
  return (
    <Field
      label={<code className="font-mono">{field.name}</code>}
      unit={field.unit}
      error={bad ?? error}
      help={<Help field={field} task={task} value={value} better={tuned} onUse={onValue} />}
      aside={
        <span className="flex items-center gap-1.5">
          {field.owner_only && <Badge>{t.settings.ownerOnly}</Badge>}
          {changed && (
            <>
              <Badge tone="busy">{t.settings.changed}</Badge>
              <IconButton
                icon={RotateCcw}
                size="sm"
                className="-my-1"
                label={t.settings.reset(field.name)}
                onClick={onReset}
              />
            </>
          )}
        </span>
      }
    >
      <FieldControl
        field={field}
        value={value}
        placeholder={placeholder}
        onValue={onValue}
        onBad={setBad}
        disabled={locked}
      />
    </Field>
  );
}

type HelpProps = Pick<SettingProps, "field" | "task" | "value"> & {
  better: unknown;
  onUse: (to: unknown) => void;
};

function Help({ field, task, value, better, onUse }: HelpProps) {
  const t = useT();
  const format = useFormat();
  const { min, max } = boundsOf(field);
  const kind = kindOf(field);
  const { tuned } = field;
  const written = typeof better === "number" ? format.decimal(better, 6) : shown(better);
  const offer =
    tuned && better !== undefined && (tuned.task === null || tuned.task === task) && value !== better;
  const extra = [
    min !== undefined &&
      max !== undefined &&
      max < 1e9 &&
      `${t.settings.between(format.decimal(min, 3), format.decimal(max, 3))}.`,
    kind === "lines" && `${t.settings.lines}.`,
    kind === "pairs" && `${t.settings.pairs}.`,
    kind === "json" && `${t.settings.json}.`,
    field.examples.length > 0 && `${t.settings.example(field.examples.map((it) => `\`${it}\``).join(", "))}.`,
  ].filter(Boolean);
  return (
    <>
      <Prose text={[field.help, ...extra].join(" ")} />
      {offer && (
        <span className="mt-1 block">
          <Prose text={t.settings.tuned(written, capitalised(tuned.why))} />{" "}
          <Button size="sm" onClick={() => onUse(better)}>
            {t.settings.takeTuned(written)}
          </Button>
        </span>
      )}
    </>
  );
}
