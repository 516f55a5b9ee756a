import { ChevronLeft, ChevronRight } from "lucide-react";
import { useT as useCommonT, useFormat } from "@/i18n";
import { IconButton } from "@/kit/button";
import { useT } from "./t";
import { PAGE } from "./use-list";

type PagerProps = { page: number; last: number; total: number; onPage: (to: number) => void };

/** Goes through a list that is longer than one page. */
export function Pager({ page, last, total, onPage }: PagerProps) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  if (last === 0) return null;
  const to = Math.min(total, (page + 1) * PAGE);
  return (
    <div className="flex items-center justify-end gap-2 border-line border-t px-4 py-2 text-ink-2 text-sm">
      {t.pages(format.integer(page * PAGE + 1), format.integer(to), format.integer(total))}
      <IconButton
        icon={ChevronLeft}
        size="sm"
        label={c.table.previous}
        disabled={page === 0}
        onClick={() => onPage(page - 1)}
      />
      <IconButton
        icon={ChevronRight}
        size="sm"
        label={c.table.next}
        disabled={page === last}
        onClick={() => onPage(page + 1)}
      />
    </div>
  );
}
