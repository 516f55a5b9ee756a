import { createContext, type ReactNode, use, useId } from "react";
import { useT } from "@/i18n";
import { cn } from "./cn";

type Held = { id: string; describedBy: string | undefined; invalid: boolean; required: boolean };
const Context = createContext<Held | null>(null);

/** The attributes that tie an input to the field around it; without a field there are none. */
export function useFieldProps() {
  const held = use(Context);
  if (!held) return {};
  return {
    id: held.id,
    "aria-describedby": held.describedBy,
    "aria-invalid": held.invalid || undefined,
    "aria-required": held.required || undefined,
  };
}

type FieldProps = {
  label: ReactNode;
  /** What it is for, and what it may be. */
  help?: ReactNode;
  /** Stands behind the label, as in "GiB". */
  unit?: ReactNode;
  /** What is wrong with it, as the gateway or the form says. */
  error?: string;
  required?: boolean;
  /** Marks it as one that may stay empty. */
  optional?: boolean;
  /** Stands at the right of the label: a mark "changed", a button "reset". */
  aside?: ReactNode;
  children: ReactNode;
  className?: string;
};

/** A labelled place for one input, with help and with what is wrong. */
export function Field({
  label,
  help,
  unit,
  error,
  required = false,
  optional,
  aside,
  children,
  className,
}: FieldProps) {
  const t = useT();
  const id = useId();
  const describedBy =
    [help ? `${id}-help` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ") || undefined;
  return (
    <div className={cn("flex min-w-0 flex-col gap-1", className)}>
      <div className="flex items-baseline gap-2">
        <label id={`${id}-label`} htmlFor={id} className="font-medium text-sm">
          {label} {unit && <span className="ml-1.5 font-normal text-ink-3">{unit}</span>}{" "}
          {optional && <span className="ml-1.5 font-normal text-ink-3">{t.word.optional}</span>}
        </label>
        {aside && <div className="ml-auto text-sm">{aside}</div>}
      </div>
      <Context value={{ id, describedBy, invalid: Boolean(error), required }}>{children}</Context>
      {error && (
        <p id={`${id}-error`} role="alert" className="text-bad text-sm">
          {error}
        </p>
      )}
      {help && (
        <div id={`${id}-help`} className="max-w-[72ch] text-ink-3 text-sm">
          {help}
        </div>
      )}
    </div>
  );
}
