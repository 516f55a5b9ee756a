import { Eye, EyeOff } from "lucide-react";
import { type ComponentProps, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { useFormat, useT } from "@/i18n";
import { IconButton } from "./button";
import { cn } from "./cn";
import { useFieldProps } from "./field";
import { readNumber } from "./read-number";

/** The classes of everything that is typed into. */
export const inputStyle =
  "w-full min-w-0 rounded-md border border-line-strong bg-panel px-2.5 text-ink text-base transition-colors duration-100 hover:border-ink-3 focus-visible:outline-offset-0 disabled:opacity-50 aria-invalid:border-bad-solid [&[readonly]]:bg-hover md:text-sm";

type TextInputProps = Omit<ComponentProps<"input">, "onChange" | "value"> & {
  value: string;
  onValue: (to: string) => void;
  /** For paths, commands and keys. */
  mono?: boolean;
};

/** One line of text. */
export function TextInput({ value, onValue, mono, className, ...props }: TextInputProps) {
  return (
    <input
      type="text"
      {...useFieldProps()}
      value={value}
      onChange={(event) => onValue(event.target.value)}
      className={cn(inputStyle, "h-8", mono && "font-mono", className)}
      {...props}
    />
  );
}

/** A password: it can be shown, and a hint says when Caps Lock is on. */
export function PasswordInput({ value, onValue, className, ...props }: TextInputProps) {
  const t = useT();
  const [shown, setShown] = useState(false);
  const [caps, setCaps] = useState(false);
  const look = (event: KeyboardEvent) => setCaps(event.getModifierState("CapsLock"));
  return (
    <div>
      <div className="relative">
        <TextInput
          type={shown ? "text" : "password"}
          value={value}
          onValue={onValue}
          className={cn("pr-9", className)}
          onKeyDown={look}
          onKeyUp={look}
          onBlur={() => setCaps(false)}
          {...props}
        />
        <IconButton
          icon={shown ? EyeOff : Eye}
          label={shown ? t.field.hidePassword : t.field.showPassword}
          size="sm"
          className="absolute top-0.5 right-0.5"
          onClick={() => setShown(!shown)}
        />
      </div>
      <p aria-live="polite" className="text-sm text-warn">
        {caps ? t.field.capsLock : ""}
      </p>
    </div>
  );
}

type TextAreaProps = Omit<ComponentProps<"textarea">, "onChange" | "value"> & {
  value: string;
  onValue: (to: string) => void;
  mono?: boolean;
};

/** Several lines of text; it grows with them. */
export function TextArea({ value, onValue, mono, className, rows = 3, ...props }: TextAreaProps) {
  return (
    <textarea
      {...useFieldProps()}
      rows={rows}
      value={value}
      onChange={(event) => onValue(event.target.value)}
      className={cn(inputStyle, "field-sizing-content max-h-96 py-1.5", mono && "font-mono", className)}
      {...props}
    />
  );
}

type NumberInputProps = {
  /** `null`: the field is empty. */
  value: number | null;
  onValue: (to: number | null) => void;
  min?: number;
  max?: number;
  step?: number;
  /** Whole numbers only. */
  integer?: boolean;
  placeholder?: string;
  disabled?: boolean;
  className?: string;
};

/**
 * A number. What is typed stays as it is until the field is left; the arrow keys go up and down by `step`. No form is sent
 * while a field has something that is no number: it would count as empty.
 */
export function NumberInput({
  value,
  onValue,
  min,
  max,
  step = 1,
  integer,
  className,
  ...props
}: NumberInputProps) {
  const t = useT();
  const { language } = useFormat();
  const shown = (of: number | null) =>
    of === null ? "" : language === "de" ? String(of).replace(".", ",") : String(of);
  const [text, setText] = useState(shown(value));
  const own = useRef(value);
  useEffect(() => {
    // Changed from elsewhere, by "reset" say.
    if (own.current === value) return;
    own.current = value;
    setText(value === null ? "" : language === "de" ? String(value).replace(".", ",") : String(value));
  }, [value, language]);
  const read = (typed: string): number | null => {
    const number = readNumber(typed, language);
    return number === null || (integer && !Number.isInteger(number)) ? null : number;
  };
  const give = (to: number | null) => {
    own.current = to;
    onValue(to);
  };
  const stepBy = (by: number) => {
    const next = Math.min(
      max ?? Infinity,
      Math.max(min ?? -Infinity, Number(((value ?? min ?? 0) + by).toPrecision(12))),
    );
    setText(shown(next));
    give(next);
  };
  const unreadable = text.trim() !== "" && read(text) === null;
  const bad = unreadable ? (integer ? t.errors.notWhole : t.errors.notNumber) : undefined;
  const outside =
    value !== null && ((min !== undefined && value < min) || (max !== undefined && value > max));
  const field = useFieldProps();
  return (
    <div>
      <input
        type="text"
        inputMode={integer ? "numeric" : "decimal"}
        autoComplete="off"
        {...field}
        ref={(it) => it?.setCustomValidity(bad ?? "")}
        data-unreadable={bad ? "" : undefined}
        aria-invalid={bad !== undefined || outside || field["aria-invalid"] || undefined}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          give(read(event.target.value));
        }}
        onBlur={() => !bad && setText(shown(value))}
        onKeyDown={(event) => {
          if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
          event.preventDefault();
          stepBy((event.key === "ArrowUp" ? step : -step) * (event.shiftKey ? 10 : 1));
        }}
        className={cn(inputStyle, "h-8 tabular-nums", className)}
        {...props}
      />
      <p aria-live="polite" className="text-bad text-sm">
        {bad}
      </p>
    </div>
  );
}
