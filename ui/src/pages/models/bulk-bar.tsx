import { CirclePlay, CircleStop } from "lucide-react";
import { useStartModel } from "@/data/models";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { toast } from "@/kit/toast";
import type { Row } from "./rows";
import { useT } from "./t";

type BulkBarProps = { rows: Row[]; onStop: (rows: Row[]) => void; onClear: () => void };

const isIdle = (row: Row) =>
  row.kind === "model" &&
  !row.model.archived &&
  (row.model.state === "stopped" || row.model.state === "failed");
const isActive = (row: Row) =>
  row.kind === "model" && ["starting", "loading", "running"].includes(row.model.state);

/** Starts and stops what is selected. */
export function BulkBar({ rows, onStop, onClear }: BulkBarProps) {
  const t = useT();
  const c = useCommonT();
  const start = useStartModel();
  const idle = rows.filter(isIdle);
  const active = rows.filter(isActive);
  const startAll = async () => {
    const results = await Promise.allSettled(
      idle.flatMap((it) => (it.kind === "model" ? [start.mutateAsync({ id: it.model.id })] : [])),
    );
    const refused = idle.filter((_, index) => results[index]?.status === "rejected").map((it) => it.name);
    if (refused.length > 0) toast(t.bulkFailed(refused.join(", ")), "bad");
    if (results.length > refused.length) toast(t.bulkDone(results.length - refused.length));
    onClear();
  };
  return (
    <div role="group" aria-label={t.selected(rows.length)} className="flex flex-wrap items-center gap-2">
      <span className="text-ink-2 text-sm">{t.selected(rows.length)}</span>
      <Button icon={CirclePlay} size="sm" disabled={idle.length === 0} onClick={() => void startAll()}>
        {t.startAll}
      </Button>
      <Button icon={CircleStop} size="sm" disabled={active.length === 0} onClick={() => onStop(active)}>
        {t.stopAll}
      </Button>
      <Button look="quiet" size="sm" onClick={onClear}>
        {c.do.clear}
      </Button>
    </div>
  );
}
