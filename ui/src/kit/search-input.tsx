import { Search, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useT } from "@/i18n";
import { IconButton } from "./button";
import { TextInput } from "./inputs";
import { Kbd } from "./text";
import { useUrlState } from "./url-state";

type SearchInputProps = {
  label: string;
  param?: string;
  /** A further search of a page, which `/` does not reach. */
  keyless?: boolean;
};

/** The search of a page: its text stands in the address, 200 ms after the last key. `/` puts the focus there. */
export function SearchInput({ label, param = "q", keyless }: SearchInputProps) {
  const t = useT();
  const [kept, keep] = useUrlState(param);
  const [text, setText] = useState(kept);
  const sent = useRef(kept);
  useEffect(() => {
    // "Back", or a link that has another search.
    if (kept !== sent.current) {
      sent.current = kept;
      setText(kept);
    }
  }, [kept]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      keep(text);
    }, 200);
    return () => clearTimeout(timer);
  }, [text, keep]);
  return (
    <div className="relative w-full sm:w-64" role="search" aria-label={label}>
      <Search aria-hidden className="pointer-events-none absolute top-2 left-2.5 size-4 text-ink-3" />
      <TextInput
        type="search"
        data-page-search={keyless ? undefined : ""}
        aria-label={label}
        placeholder={label}
        value={text}
        onValue={setText}
        className="px-8 [&::-webkit-search-cancel-button]:hidden"
      />
      <span className="absolute top-0.5 right-0.5">
        {text ? (
          <IconButton icon={X} label={t.do.clear} size="sm" onClick={() => setText("")} />
        ) : (
          !keyless && (
            <span aria-hidden className="hidden p-1 pr-1.5 md:block">
              <Kbd>/</Kbd>
            </span>
          )
        )}
      </span>
    </div>
  );
}
