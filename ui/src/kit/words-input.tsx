import { X } from "lucide-react";
import { type KeyboardEvent, useId, useState } from "react";
import { useT } from "@/i18n";
import { cn } from "./cn";
import { useFieldProps } from "./field";
import { inputStyle } from "./inputs";

type WordsInputProps = {
  value: string[];
  onValue: (to: string[]) => void;
  /** Says what is wrong with an entry; it is asked while typing, too. */
  check?: (word: string) => string | undefined;
  suggestions?: readonly string[];
  /** Between entries, besides Enter: what is pasted is divided by it. */
  separator?: RegExp;
  placeholder?: string;
  mono?: boolean;
};

/** Several short texts: each becomes a chip that can be removed. Enter adds what is typed, and so does leaving the field. */
export function WordsInput(props: WordsInputProps) {
  const { value, onValue, check, suggestions = [], separator = /\n/, placeholder, mono } = props;
  const t = useT();
  const field = useFieldProps();
  const list = useId();
  const note = useId();
  const [text, setText] = useState("");
  const add = (typed: string) => {
    const words = typed
      .split(separator)
      .map((it) => it.trim())
      .filter(Boolean);
    if (words.length > 0) onValue([...new Set([...value, ...words])]);
    setText("");
  };
  const remove = (word: string) => onValue(value.filter((it) => it !== word));
  const press = (event: KeyboardEvent) => {
    const last = value.at(-1);
    if (event.key === "Enter" && text.trim()) {
      event.preventDefault();
      add(text);
    } else if (event.key === "Backspace" && text === "" && last !== undefined) remove(last);
  };
  const wrong = [...value, text.trim()].find((it) => it !== "" && check?.(it) !== undefined);
  const problem = wrong === undefined ? undefined : check?.(wrong);
  return (
    <div>
      <div
        className={cn(
          inputStyle,
          "flex min-h-8 flex-wrap items-center gap-1 p-1 focus-within:outline-2 focus-within:outline-accent",
        )}
      >
        {value.map((word) => (
          <span
            key={word}
            className={cn(
              "inline-flex h-6 min-w-0 max-w-full items-center gap-1 rounded-sm bg-idle-soft pl-1.5 text-sm",
              mono && "font-mono text-xs",
              check?.(word) && "bg-bad-soft text-bad",
            )}
          >
            <span className="truncate">{word}</span>
            <button
              type="button"
              aria-label={t.field.removeEntry(word)}
              onClick={() => remove(word)}
              className="grid size-6 shrink-0 place-items-center rounded-sm hover:bg-hover"
            >
              <X aria-hidden className="size-3" />
            </button>
          </span>
        ))}
        <input
          type="text"
          {...field}
          aria-describedby={cn(field["aria-describedby"], note)}
          aria-invalid={problem !== undefined || field["aria-invalid"] || undefined}
          list={suggestions.length > 0 ? list : undefined}
          autoComplete="off"
          spellCheck={false}
          value={text}
          placeholder={value.length === 0 ? placeholder : undefined}
          onChange={(event) => {
            const typed = event.target.value;
            // A suggestion that was chosen, or several entries that were pasted.
            if (suggestions.includes(typed) || separator.test(typed)) add(typed);
            else setText(typed);
          }}
          onKeyDown={press}
          onBlur={() => add(text)}
          className={cn("h-6 min-w-24 flex-1 bg-transparent px-1.5 outline-none", mono && "font-mono")}
        />
        <datalist id={list}>
          {suggestions
            .filter((it) => !value.includes(it))
            .map((it) => (
              <option key={it} value={it} />
            ))}
        </datalist>
      </div>
      <p id={note} aria-live="polite" className="text-bad text-sm">
        {problem ?? ""}
      </p>
    </div>
  );
}
