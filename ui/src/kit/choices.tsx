import { Check, Minus } from "lucide-react";
import { type ReactNode, useId } from "react";
import { cn } from "./cn";
import { useFieldProps } from "./field";

type CheckboxProps = {
  checked: boolean;
  onChecked: (to: boolean) => void;
  /** Without it the box needs a field around it, or an `aria-label`. */
  label?: ReactNode;
  help?: ReactNode;
  mixed?: boolean;
  disabled?: boolean;
  "aria-label"?: string;
};

/** Yes or no, that takes effect when the form is sent. */
export function Checkbox({ checked, onChecked, label, help, mixed, disabled, ...props }: CheckboxProps) {
  const field = useFieldProps();
  const helpId = useId();
  const Mark = mixed ? Minus : Check;
  return (
    <label className={cn("flex items-start gap-2 text-sm", disabled && "opacity-50")}>
      <span className="relative mt-0.5 grid size-4 shrink-0 place-items-center">
        <input
          type="checkbox"
          {...field}
          aria-describedby={help ? helpId : field["aria-describedby"]}
          {...props}
          checked={checked}
          disabled={disabled}
          ref={(box) => {
            if (box) box.indeterminate = Boolean(mixed);
          }}
          onChange={(event) => onChecked(event.target.checked)}
          className="peer size-4 appearance-none rounded-sm border border-line-strong bg-panel checked:border-accent checked:bg-accent indeterminate:border-accent indeterminate:bg-accent"
        />
        <Mark
          aria-hidden
          className={cn("pointer-events-none absolute size-3 text-on-accent", !checked && !mixed && "hidden")}
          strokeWidth={3}
        />
      </span>
      {(label || help) && (
        <span className="min-w-0">
          {label}
          {help && (
            <span id={helpId} className="block max-w-[72ch] text-ink-3">
              {help}
            </span>
          )}
        </span>
      )}
    </label>
  );
}

type SwitchProps = {
  checked: boolean;
  onChecked: (to: boolean) => void;
  label?: ReactNode;
  disabled?: boolean;
  "aria-label"?: string;
};

/** On or off, that takes effect at once. */
export function Switch({ checked, onChecked, label, disabled, ...props }: SwitchProps) {
  return (
    <label className={cn("inline-flex items-center gap-2 text-sm", disabled && "opacity-50")}>
      <span className="relative inline-flex h-5 w-9 shrink-0">
        <input
          type="checkbox"
          role="switch"
          aria-checked={checked}
          {...useFieldProps()}
          {...props}
          checked={checked}
          disabled={disabled}
          onChange={(event) => onChecked(event.target.checked)}
          className="peer size-full appearance-none rounded-full border border-line-strong bg-hover transition-colors duration-100 checked:border-accent checked:bg-accent"
        />
        <span className="pointer-events-none absolute top-1 left-1 size-3 rounded-full bg-ink-2 transition-transform duration-100 peer-checked:translate-x-4 peer-checked:bg-on-accent" />
      </span>
      {label}
    </label>
  );
}

export type Choice<T extends string> = { value: T; label: ReactNode; help?: ReactNode; disabled?: boolean };
type ChoicesProps<T extends string> = {
  value: T;
  onValue: (to: T) => void;
  options: readonly Choice<T>[];
  label: string;
  disabled?: boolean;
};

/** One of a few that need an explanation each. */
export function RadioGroup<T extends string>({ value, onValue, options, label, disabled }: ChoicesProps<T>) {
  const name = useId();
  return (
    <fieldset className="flex flex-col gap-2" disabled={disabled}>
      <legend className="mb-1 font-medium text-sm">{label}</legend>
      {options.map((option) => (
        <label
          key={option.value}
          className={cn("flex items-start gap-2 text-sm", (disabled || option.disabled) && "opacity-50")}
        >
          <input
            type="radio"
            name={name}
            value={option.value}
            checked={value === option.value}
            disabled={option.disabled}
            onChange={() => onValue(option.value)}
            className="mt-0.5 size-4 shrink-0 appearance-none rounded-full border border-line-strong bg-panel checked:border-[5px] checked:border-accent"
          />
          <span className="min-w-0">
            {option.label}
            {option.help && <span className="block max-w-[72ch] text-ink-3">{option.help}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

/** One of two to five words, all in sight: ranges, kinds of view. */
export function Segmented<T extends string>({ value, onValue, options, label, disabled }: ChoicesProps<T>) {
  const name = useId();
  return (
    <fieldset
      className="inline-flex h-8 max-w-full overflow-x-auto rounded-md border border-line bg-hover p-0.5"
      disabled={disabled}
    >
      <legend className="sr-only">{label}</legend>
      {options.map((option) => (
        <label
          key={option.value}
          className="relative inline-flex items-center whitespace-nowrap rounded-sm border border-transparent px-2 text-ink-2 text-sm hover:text-ink has-checked:border-line has-checked:bg-panel has-checked:font-medium has-checked:text-ink has-focus-visible:outline-2 has-focus-visible:outline-accent has-disabled:opacity-50"
        >
          <input
            type="radio"
            name={name}
            value={option.value}
            checked={value === option.value}
            disabled={option.disabled}
            onChange={() => onValue(option.value)}
            className="absolute inset-0 appearance-none outline-none"
          />
          {option.label}
        </label>
      ))}
    </fieldset>
  );
}
