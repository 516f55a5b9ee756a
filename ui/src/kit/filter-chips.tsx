import type { ReactNode } from "react";
import { useFormat } from "@/i18n";
import { useUrlState } from "./url-state";

export type Chip = { value: string; label: ReactNode; count?: number };

/** Filters of a list, each with the number of what it would show. The chosen ones stand in the address; none chosen: all. */
export function FilterChips({
  chips,
  label,
  param = "state",
}: {
  chips: Chip[];
  label: string;
  param?: string;
}) {
  const format = useFormat();
  const [chosen, choose] = useUrlState(param);
  const words = new Set(chosen.split(",").filter(Boolean));
  const toggle = (value: string) => {
    if (!words.delete(value)) words.add(value);
    choose([...words].join(","));
  };
  return (
    <fieldset className="flex flex-wrap items-center gap-1.5">
      <legend className="sr-only">{label}</legend>
      {chips.map((chip) => (
        <button
          key={chip.value}
          type="button"
          aria-pressed={words.has(chip.value)}
          onClick={() => toggle(chip.value)}
          className="inline-flex h-7 items-center gap-1.5 rounded-full border border-line bg-panel px-2.5 text-ink-2 text-sm hover:bg-hover aria-pressed:border-accent aria-pressed:bg-accent-soft aria-pressed:text-ink"
        >
          {chip.label}
          {chip.count !== undefined && (
            <span className="text-ink-2 text-xs">{format.integer(chip.count)}</span>
          )}
        </button>
      ))}
    </fieldset>
  );
}
