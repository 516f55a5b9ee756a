import { Check, ChevronDown } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { useT } from "@/i18n";
import { cn } from "./cn";
import { useFieldProps } from "./field";
import { inputStyle } from "./inputs";

export type ComboboxOption = { value: string; label: string; note?: string };

export type ComboboxProps = {
  /** Empty: nothing is chosen. */
  value: string;
  onValue: (to: string) => void;
  options: ComboboxOption[];
  /** Called with what is typed, where the gateway searches; without it the options are filtered here. */
  onSearch?: (text: string) => void;
  /** The options are on their way. */
  loading?: boolean;
  /** What is typed may be chosen although no option has it: a path, a name. */
  free?: boolean;
  placeholder?: string;
  disabled?: boolean;
  "aria-label"?: string;
};

/** More are found by typing more. */
const SHOWN = 100;

/** One of many, found by typing. Base UI's hides the page from screen readers while its list is open, which axe refuses. */
export function Combobox({
  value,
  onValue,
  options,
  onSearch,
  loading,
  free,
  placeholder,
  disabled,
  ...props
}: ComboboxProps) {
  const t = useT();
  const field = useFieldProps();
  const list = useId();
  const box = useRef<HTMLDivElement>(null);
  /** What is typed; `null`: nothing since the last choice. */
  const [typed, setTyped] = useState<string | null>(null);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const chosen = options.find((it) => it.value === value)?.label ?? value;
  const found = useMemo(() => {
    const text = onSearch ? "" : (typed ?? "").trim().toLowerCase();
    return options.filter((it) => it.label.toLowerCase().includes(text)).slice(0, SHOWN);
  }, [options, typed, onSearch]);
  const active = Math.min(at, found.length - 1);
  useEffect(() => {
    if (open) box.current?.querySelector(`[data-at="${active}"]`)?.scrollIntoView({ block: "nearest" });
  }, [open, active]);
  const show = () => {
    if (open || disabled) return;
    setOpen(true);
    setAt(
      Math.max(
        0,
        options.findIndex((it) => it.value === value),
      ),
    );
  };
  const choose = (to: string) => {
    onValue(to);
    setTyped(null);
    setOpen(false);
  };
  const leave = () => {
    if (free && typed !== null) onValue(typed);
    else if (typed === "") onValue("");
    setTyped(null);
    setOpen(false);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      if (!open) show();
      else if (found.length > 0) setAt((active + step + found.length) % found.length);
    } else if (event.key === "Enter" && open && found[active]) {
      event.preventDefault();
      choose(found[active].value);
    } else if (event.key === "Escape" && open) {
      // The dialog around it stays.
      event.stopPropagation();
      event.nativeEvent.stopImmediatePropagation();
      setTyped(null);
      setOpen(false);
    }
  };
  return (
    <div ref={box} className="relative">
      <input
        role="combobox"
        autoComplete="off"
        spellCheck={false}
        aria-expanded={open}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={open && found.length > 0 ? `${list}-${active}` : undefined}
        {...field}
        {...props}
        placeholder={placeholder}
        disabled={disabled}
        value={typed ?? chosen}
        onClick={show}
        onKeyDown={onKey}
        onBlur={leave}
        onChange={(event) => {
          setTyped(event.target.value);
          setOpen(true);
          setAt(0);
          onSearch?.(event.target.value);
        }}
        className={cn(inputStyle, "h-8 truncate pr-8")}
      />
      <ChevronDown aria-hidden className="pointer-events-none absolute top-2 right-2 size-4 text-ink-3" />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: it only keeps the focus where it is typed */}
      <div
        role="presentation"
        onMouseDown={(event) => event.preventDefault()}
        className={cn(
          "absolute inset-x-0 top-full z-30 mt-1 max-h-72 min-w-52 overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-float",
          !open && "hidden",
        )}
      >
        {found.length === 0 && (
          <p className="px-2 py-1.5 text-ink-3 text-sm">
            {loading ? `${t.word.loading} …` : t.field.notFound}
          </p>
        )}
        <div
          id={list}
          role="listbox"
          aria-label={props["aria-label"]}
          aria-labelledby={"id" in field ? `${field.id}-label` : undefined}
        >
          {open &&
            found.map((it, index) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are handled where they are typed
              <div
                key={it.value}
                id={`${list}-${index}`}
                data-at={index}
                role="option"
                tabIndex={-1}
                aria-selected={it.value === value}
                onMouseMove={() => setAt(index)}
                onClick={() => choose(it.value)}
                className={cn(
                  "flex min-h-8 cursor-default items-center gap-2 rounded-md px-2 text-sm",
                  index === active && "bg-hover",
                )}
              >
                <span className="min-w-0 flex-1 truncate">{it.label}</span>
                {it.note && <span className="text-ink-3">{it.note}</span>}
                {it.value === value && <Check aria-hidden className="size-4 text-accent-text" />}
              </div>
            ))}
        </div>
      </div>
    </div>
  );
}
