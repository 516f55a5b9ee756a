import { ChevronLeft, ChevronRight } from "lucide-react";
import { useEffect, useRef } from "react";
import { useFormat, useT } from "@/i18n";
import { IconButton } from "./button";
import { useUrlState } from "./url-state";

type Page = { page: number; limit: number; offset: number; setPage: (to: number) => void };

/** The page of a long list, which stands in the address. When `filters` change, the list begins at its first page. */
export function usePage(filters: string, limit = 50): Page {
  const [word, setWord] = useUrlState("page", "1");
  const page = Math.min(1_000_000, Math.max(1, Math.floor(Number(word)) || 1));
  const before = useRef(filters);
  useEffect(() => {
    if (before.current === filters) return;
    before.current = filters;
    setWord("1");
  }, [filters, setWord]);
  return { page, limit, offset: (page - 1) * limit, setPage: (to) => setWord(String(to), { push: true }) };
}

/** Says which part of a list is shown, and turns its pages. */
export function Pager({ at, total }: { at: Page; total: number | undefined }) {
  const t = useT();
  const format = useFormat();
  const { page, limit, offset, setPage } = at;
  const last = Math.max(1, Math.ceil((total ?? 0) / limit));
  // The list became shorter, or somebody wrote the page into the address.
  const beyond = total !== undefined && page > last;
  useEffect(() => {
    if (beyond) setPage(last);
  }, [beyond, last, setPage]);
  if (!total) return null;
  const range = t.table.range(
    format.integer(offset + 1),
    format.integer(Math.min(total, offset + limit)),
    format.integer(total),
  );
  return (
    <nav
      aria-label={t.table.pages}
      className="flex min-h-11 items-center justify-end gap-2 border-line border-t px-4 py-1.5 text-ink-2 text-sm"
    >
      <span aria-live="polite">{range}</span>
      {last > 1 && (
        <>
          <IconButton
            icon={ChevronLeft}
            size="sm"
            label={t.table.previous}
            disabled={page <= 1}
            onClick={() => setPage(page - 1)}
          />
          <IconButton
            icon={ChevronRight}
            size="sm"
            label={t.table.next}
            disabled={page >= last}
            onClick={() => setPage(page + 1)}
          />
        </>
      )}
    </nav>
  );
}
