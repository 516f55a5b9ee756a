import { Download } from "lucide-react";
import { useState } from "react";
import { download, downloadText } from "@/api/download";
import { useMay } from "@/data/session";
import { fetchAllGroups, useGroups, useRowCount } from "@/data/usage-explore";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { RadioGroup } from "@/kit/choices";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { useDimension } from "./dimension";
import { type Usage, WORDS } from "./filter";
import { sumsCsv } from "./sums-csv";
import { useT } from "./t";

const LARGE = 100_000;
type What = "rows" | "sums";

/** Says how many rows the file will have, and what they are narrowed by, before it is downloaded. */
export function CsvDialog({ usage, onClose }: { usage: Usage; onClose: () => void }) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const may = useMay();
  const { url, own } = usage;
  const { by } = useDimension(usage);
  const mayRows = may("exportUsage") && !own;
  const [chosen, setChosen] = useState<What>("rows");
  const what = mayRows ? chosen : "sums";
  // The range moves on with the time: the file has the rows that were counted.
  const [now] = useState({ ...usage.now, to: usage.until });
  const rows = useRowCount(now, own, { enabled: what === "rows" });
  const groups = useGroups({ ...now, group_by: by, limit: 1 }, own);
  const [failed, setFailed] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const count = what === "rows" ? rows.data : groups.data?.total;
  const error = failed ?? (what === "rows" ? rows.error : groups.error);
  const save = async () => {
    const range = `${now.from.slice(0, 16)}-${now.to.slice(0, 16)}`.replaceAll(":", "");
    if (what === "rows") {
      download("exportUsage", now, `usage-${range}.csv`);
      return onClose();
    }
    setBusy(true);
    try {
      const all = await fetchAllGroups({ ...now, group_by: by }, own);
      downloadText(sumsCsv(all, by, t), `usage-by-${by}-${range}.csv`, "text/csv");
      onClose();
    } catch (error) {
      setFailed(error);
    } finally {
      setBusy(false);
    }
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
          <Button
            look="primary"
            icon={Download}
            busy={busy}
            disabled={count === undefined}
            onClick={() => void save()}
          >
            {c.do.download}
          </Button>
        </>
      }
    >
      {mayRows && (
        <RadioGroup<What>
          label={t.csv.what}
          value={what}
          onValue={setChosen}
          options={[
            { value: "rows", label: t.csv.each },
            { value: "sums", label: t.csv.sums(t.series.bys[by]) },
          ]}
        />
      )}
      <p aria-live="polite" className="font-medium">
        {count === undefined
          ? t.csv.counting
          : count === 0
            ? t.csv.none
            : (what === "rows" ? t.csv.rows : t.csv.groups)(format.integer(count), count === 1)}
      </p>
      {error != null && <ErrorNote error={error} />}
      {(count ?? 0) > LARGE && <p className="text-ink-2 text-sm">{t.csv.large}</p>}
      <div className="flex flex-col gap-1.5">
        <p className="text-ink-2 text-sm">{t.csv.filters}</p>
        <Facts
          facts={[[t.csv.range, `${format.dateTime(now.from)} – ${format.dateTime(now.to)}`], ...filters]}
        />
      </div>
    </Dialog>
  );
}
