import { useEffect, useRef, useState } from "react";
import type { ModelField } from "@/data/model-files";
import { NumberInput, TextArea, TextInput } from "@/kit/inputs";
import { Select } from "@/kit/select";
import { boundsOf, choicesOf, fromText, type Kind, kindOf, toText } from "./field-schema";
import { shown } from "./settings";
import { useT } from "./t";

type ControlProps = {
  field: ModelField;
  /** `undefined`: it is not set. */
  value: unknown;
  /** What counts while it is not set, in words. */
  placeholder: string;
  onValue: (to: unknown) => void;
  onBad: (why: string | undefined) => void;
  disabled?: boolean;
};

/** The input of one setting, made from its JSON Schema. Empty means that it is not set. */
export function FieldControl({ field, value, placeholder, onValue, onBad, disabled }: ControlProps) {
  const t = useT();
  const kind = kindOf(field);
  switch (kind) {
    case "choice":
    case "switch": {
      const choices = kind === "switch" ? [true, false] : choicesOf(field);
      const words = (it: unknown) =>
        it === true ? t.settings.on : it === false ? t.settings.off : shown(it);
      return (
        <Select
          value={value === undefined ? "" : JSON.stringify(value)}
          disabled={disabled}
          onValue={(to) => onValue(to === "" ? undefined : JSON.parse(to))}
          options={[
            { value: "", label: placeholder },
            ...choices.map((it) => ({ value: JSON.stringify(it), label: words(it) })),
          ]}
        />
      );
    }
    case "integer":
    case "number":
      return (
        <NumberInput
          value={typeof value === "number" ? value : null}
          onValue={(to) => onValue(to ?? undefined)}
          integer={kind === "integer"}
          step={kind === "integer" ? 1 : 0.01}
          placeholder={placeholder}
          disabled={disabled}
          {...boundsOf(field)}
        />
      );
    case "text":
      return (
        <TextInput
          value={typeof value === "string" ? value : ""}
          onValue={(to) => onValue(to === "" ? undefined : to)}
          placeholder={placeholder}
          disabled={disabled}
          autoComplete="off"
          spellCheck={false}
        />
      );
    default:
      return (
        <TypedText
          kind={kind}
          value={value}
          placeholder={placeholder}
          disabled={disabled}
          onValue={onValue}
          onBad={onBad}
        />
      );
  }
}

type TypedTextProps = Omit<ControlProps, "field"> & { kind: Kind };

/** A value that is written as text of its own form. What can't be read stays in the field, and is not sent. */
function TypedText({ kind, value, placeholder, onValue, onBad, disabled }: TypedTextProps) {
  const t = useT();
  const [text, setText] = useState(() => toText(kind, value));
  const own = useRef(value);
  useEffect(() => {
    if (JSON.stringify(own.current) === JSON.stringify(value)) return;
    own.current = value;
    setText(toText(kind, value));
  }, [kind, value]);
  const type = (to: string) => {
    setText(to);
    const read = fromText(kind, to);
    onBad(
      read === "bad"
        ? kind === "pairs"
          ? t.settings.badPairs
          : kind === "json"
            ? t.settings.badJson
            : t.settings.gpus
        : undefined,
    );
    if (read === "bad") return;
    own.current = read.value;
    onValue(read.value);
  };
  if (kind === "integers")
    return (
      <TextInput
        value={text}
        onValue={type}
        placeholder={placeholder}
        disabled={disabled}
        inputMode="numeric"
      />
    );
  return (
    <TextArea
      mono
      rows={kind === "long" ? 4 : 2}
      value={text}
      onValue={type}
      placeholder={placeholder}
      disabled={disabled}
      spellCheck={false}
    />
  );
}
