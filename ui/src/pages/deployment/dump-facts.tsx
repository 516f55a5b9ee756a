import type { ReactNode } from "react";
import type { DumpCheck } from "@/data/deployment";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { useT } from "./t";

/** What the check of a dump found: whether it can be restored, and how much is in it. */
export function DumpFacts({ dump }: { dump: DumpCheck }) {
  const t = useT().restoring;
  const format = useFormat();
  const tables = Object.entries(dump.tables);
  const facts: [ReactNode, ReactNode][] = [
    [
      t.file,
      <code key="path" className="break-all font-mono text-xs">
        {dump.path}
      </code>,
    ],
    [t.facts.size, dump.size_bytes === null ? "–" : format.bytes(dump.size_bytes)],
    [t.facts.written, dump.created_at ? format.dateTime(dump.created_at) : "–"],
    [t.facts.schema, dump.schema_version === null ? "–" : String(dump.schema_version)],
    [t.facts.kind, dump.kind ?? "–"],
    [t.facts.rows, format.integer(tables.reduce((sum, [, rows]) => sum + rows, 0))],
  ];
  return (
    <Panel
      title={dump.valid ? t.valid : dump.exists ? t.invalid : t.absent}
      actions={<StateBadge state={dump.valid ? "ok" : "error"} />}
    >
      <div className="flex flex-col gap-4">
        <Facts facts={facts} />
        {dump.problems.length > 0 && (
          <div role="alert" className="rounded-md border border-bad-solid bg-bad-soft px-3 py-2 text-sm">
            <h3 className="font-medium">{t.problems}</h3>
            <ul className="list-disc pl-4">
              {dump.problems.map((it) => (
                <li key={it} className="break-words">
                  {it}
                </li>
              ))}
            </ul>
          </div>
        )}
        {dump.warnings.length > 0 && (
          <div className="rounded-md border border-warn-solid bg-warn-soft px-3 py-2 text-sm">
            <h3 className="font-medium">{t.warnings}</h3>
            <ul className="list-disc pl-4">
              {dump.warnings.map((it) => (
                <li key={it} className="break-words">
                  {it}
                </li>
              ))}
            </ul>
          </div>
        )}
        {tables.length > 0 && (
          <div>
            <h3 className="mb-1.5 text-ink-2 text-sm">{t.rows}</h3>
            <dl className="grid grid-cols-[repeat(auto-fill,minmax(11rem,1fr))] gap-x-6 gap-y-1 text-sm">
              {tables.map(([table, rows]) => (
                <div key={table} className="flex justify-between gap-2">
                  <dt className="truncate font-mono text-xs leading-5">{table}</dt>
                  <dd>{format.integer(rows)}</dd>
                </div>
              ))}
            </dl>
          </div>
        )}
      </div>
    </Panel>
  );
}
