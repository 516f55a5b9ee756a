import { Combobox as Base } from "@base-ui/react/combobox";
import { Check, ChevronDown } from "lucide-react";
import { useT } from "@/i18n";
import type { ComboboxProps } from "./combobox";
import { useFieldProps } from "./field";
import { inputStyle } from "./inputs";

export type ComboboxOption = { value: string; label: string; note?: string };

/** The list of a combobox. It is loaded by `Combobox`. */
export default function ComboboxPopup({
  value,
  onValue,
  options,
  onSearch,
  placeholder,
  disabled,
  ...props
}: ComboboxProps) {
  const t = useT();
  return (
    <Base.Root<ComboboxOption>
      items={options}
      value={options.find((it) => it.value === value) ?? (value ? { value, label: value } : null)}
      onValueChange={(to) => onValue(to?.value ?? "")}
      onInputValueChange={(to) => onSearch?.(to)}
      // The gateway has searched already: what it found is not filtered once more.
      filter={onSearch ? null : undefined}
      isItemEqualToValue={(a, b) => a.value === b.value}
      disabled={disabled}
    >
      <div className="relative">
        <Base.Input
          {...useFieldProps()}
          {...props}
          placeholder={placeholder}
          className={`${inputStyle} h-8 pr-8`}
        />
        <Base.Trigger
          aria-label={t.do.openMenu}
          className="absolute top-0 right-0 grid size-8 place-items-center rounded-md text-ink-3"
        >
          <ChevronDown aria-hidden className="size-4" />
        </Base.Trigger>
      </div>
      <Base.Portal>
        <Base.Positioner sideOffset={4} className="z-50 outline-none">
          <Base.Popup className="max-h-72 w-(--anchor-width) min-w-52 overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-float">
            <Base.Empty className="px-2 py-1.5 text-ink-3 text-sm empty:hidden">
              {t.field.notFound}
            </Base.Empty>
            <Base.List>
              {(item: ComboboxOption) => (
                <Base.Item
                  key={item.value}
                  value={item}
                  className="flex min-h-8 cursor-default items-center gap-2 rounded-md px-2 text-sm outline-none data-highlighted:bg-hover"
                >
                  <span className="min-w-0 flex-1 truncate">{item.label}</span>
                  {item.note && <span className="text-ink-3">{item.note}</span>}
                  <Base.ItemIndicator render={<Check aria-hidden className="size-4 text-accent-text" />} />
                </Base.Item>
              )}
            </Base.List>
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
