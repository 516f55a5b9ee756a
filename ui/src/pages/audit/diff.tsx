import type { AuditRow } from "@/data/audit";
import { cn } from "@/kit/cn";
import { type Change, changesOf } from "./changes";
import { useT } from "./t";

const HEAD = "border-line border-b px-3 py-1.5 text-left font-medium text-ink-2 text-xs";

/** The fields that an action changed, before and after beside each other; below each other where there is no room. */
export function Diff({ row }: { row: AuditRow }) {
  const t = useT();
  const changes = changesOf(row);
  if (changes.length === 0) return <p className="text-ink-3 text-sm">{t.detail.nothing}</p>;
  const both = row.before !== null && row.after !== null;
  return (
    <div>
      <h3 className="mb-2 text-ink-2 text-sm">
        {both ? t.detail.changes : row.before ? t.detail.removed : t.detail.made}
      </h3>
      <div className="overflow-hidden rounded-md border border-line">
        <table className="w-full table-fixed border-separate border-spacing-0 text-sm">
          <thead className="bg-hover">
            <tr>
              <th scope="col" className={HEAD}>
                {t.diff.field}
              </th>
              {row.before && (
                <th scope="col" className={HEAD}>
                  {t.diff.before}
                </th>
              )}
              {row.after && (
                <th scope="col" className={HEAD}>
                  {t.diff.after}
                </th>
              )}
            </tr>
          </thead>
          <tbody className="[&>tr:last-child>*]:border-b-0">
            {changes.map((it) => (
              <Line key={it.field} change={it} row={row} both={both} />
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function Line({ change, row, both }: { change: Change; row: AuditRow; both: boolean }) {
  const cell = "break-words border-line border-b px-3 py-1.5 align-baseline";
  return (
    <tr>
      <th scope="row" className={cn(cell, "text-left font-mono font-normal text-xs leading-5")}>
        {change.field}
      </th>
      {row.before && (
        <td className={cn(cell, both && "bg-bad-soft")}>
          <Value value={change.before} />
        </td>
      )}
      {row.after && (
        <td className={cn(cell, both && "bg-ok-soft")}>
          <Value value={change.after} />
        </td>
      )}
    </tr>
  );
}

function Value({ value }: { value: unknown }) {
  const t = useT();
  if (value === undefined) return <span className="text-ink-2 italic">{t.diff.absent}</span>;
  if (value === "") return <span className="text-ink-2 italic">{t.diff.empty}</span>;
  if (typeof value === "string") return <bdi className="whitespace-pre-wrap leading-5">{value}</bdi>;
  const written = typeof value === "object" ? JSON.stringify(value, null, 1) : String(value);
  return <code className="whitespace-pre-wrap break-all font-mono text-xs leading-5">{written}</code>;
}
