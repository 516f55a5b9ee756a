import { ChevronDown } from "lucide-react";
import type { ComponentProps } from "react";
import { cn } from "./cn";
import { useFieldProps } from "./field";
import { inputStyle } from "./inputs";

export type Option<T extends string = string> = { value: T; label: string; disabled?: boolean };

type SelectProps<T extends string> = Omit<ComponentProps<"select">, "onChange" | "value" | "size"> & {
  value: T;
  onValue: (to: T) => void;
  options: readonly Option<T>[];
  /** As wide as its content, for bars of filters; it needs an `aria-label` then. */
  compact?: boolean;
};

/** One of a few. It is the browser's own, which works with every keyboard, phone and screen reader. */
export function Select<T extends string>({
  value,
  onValue,
  options,
  compact,
  className,
  ...props
}: SelectProps<T>) {
  const choose = (to: string) => {
    const option = options.find((it) => it.value === to);
    if (option) onValue(option.value);
  };
  return (
    <span className={cn("relative", compact ? "inline-block" : "block w-full")}>
      <select
        {...useFieldProps()}
        value={value}
        onChange={(event) => choose(event.target.value)}
        className={cn(
          inputStyle,
          "h-8 appearance-none truncate bg-panel pr-8",
          compact && "w-auto max-w-56",
          className,
        )}
        {...props}
      >
        {options.map((option) => (
          <option key={option.value} value={option.value} disabled={option.disabled}>
            {option.label}
          </option>
        ))}
      </select>
      <ChevronDown aria-hidden className="pointer-events-none absolute top-2 right-2 size-4 text-ink-3" />
    </span>
  );
}
