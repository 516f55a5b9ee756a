import { Download } from "lucide-react";
import { useState } from "react";
import { download } from "@/api/download";
import { useRowCount } from "@/data/usage-explore";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { type Usage, WORDS } from "./filter";
import { useT } from "./t";

const LARGE = 100_000;

/** Says how many rows the file will have, and what they are narrowed by, before it is downloaded. */
export function CsvDialog({ usage, onClose }: { usage: Usage; onClose: () => void }) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const { url } = usage;
  // The range moves on with the time: the file has the rows that were counted.
  const [now] = useState(usage.now);
  const count = useRowCount(now, false);
  const file = `usage-${now.from.slice(0, 16).replace(":", "")}-${now.to.slice(0, 16).replace(":", "")}.csv`;
  const save = () => {
    download("exportUsage", now, file);
    onClose();
  };
  const filters = WORDS.flatMap((word): [string, string][] => {
    const value = url[word];
    return value ? [[t.filters[word], value.trim() || t.filters.noModel]] : [];
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={t.csv.title}
      footer={
        <>
          <Button onClick={onClose}>{c.do.cancel}</Button>
          <Button look="primary" icon={Download} disabled={count.data === undefined} onClick={save}>
            {c.do.download}
          </Button>
        </>
      }
    >
      <p aria-live="polite" className="font-medium">
        {count.data === undefined
          ? t.csv.counting
          : count.data === 0
            ? t.csv.none
            : t.csv.rows(format.integer(count.data), count.data === 1)}
      </p>
      {count.error && <ErrorNote error={count.error} />}
      {(count.data ?? 0) > LARGE && <p className="text-ink-2 text-sm">{t.csv.large}</p>}
      <div className="flex flex-col gap-1.5">
        <p className="text-ink-2 text-sm">{t.csv.filters}</p>
        <Facts
          facts={[[t.csv.range, `${format.dateTime(now.from)} – ${format.dateTime(now.to)}`], ...filters]}
        />
      </div>
    </Dialog>
  );
}
