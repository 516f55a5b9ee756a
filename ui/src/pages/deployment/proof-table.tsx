import { useFormat } from "@/i18n";
import { type Column, Table } from "@/kit/table";
import type { Proof } from "./artifacts";
import { useT } from "./t";

type Row = { table: string; rows: number; digest: string | undefined };

/** What was proven of a restored database: rows and digest of each table, and the owners who can sign in. */
export function ProofTable({ proof }: { proof: Proof }) {
  const t = useT().made;
  const format = useFormat();
  const rows = Object.entries(proof.rows).map(
    ([table, count]): Row => ({ table, rows: count, digest: proof.digests[table] }),
  );
  const columns: Column<Row>[] = [
    { id: "table", head: t.table, cell: (it) => <code className="font-mono text-xs">{it.table}</code> },
    { id: "rows", head: t.count, numeric: true, cell: (it) => format.integer(it.rows) },
    {
      id: "digest",
      head: t.digest,
      wide: true,
      cell: (it) => <code className="break-all font-mono text-ink-2 text-xs">{it.digest ?? "–"}</code>,
    },
  ];
  return (
    <div className="max-w-3xl">
      <h3 className="mb-1 text-ink-2">{t.proven}</h3>
      <ul className="mb-2 list-disc pl-4">
        {proof.owners !== null && (
          <li>
            {t.owners}: {format.integer(proof.owners)}
          </li>
        )}
        {proof.requests !== null && (
          <li>
            {t.usage}: {t.requests(format.integer(proof.requests))}
          </li>
        )}
        {proof.audit !== null && (
          <li>
            {t.audit}: {proof.audit ? t.auditHolds : t.auditBroken}
          </li>
        )}
      </ul>
      <div className="rounded-md border border-line bg-panel">
        <Table
          label={t.proven}
          columns={columns}
          list={{ data: rows, error: null }}
          rowKey={(it) => it.table}
        />
      </div>
    </div>
  );
}
