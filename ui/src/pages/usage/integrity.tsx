import { ShieldCheck } from "lucide-react";
import type { Answer } from "@/api/types";
import { useIntegrity } from "@/data/usage-explore";
import { useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { useT } from "./t";

type Report = Answer<"checkUsage">;
type Mismatch = Report["mismatches"][number];

/** Compares rows with their sums, when somebody asks for it. */
export function Integrity() {
  const t = useT();
  const check = useIntegrity();
  return (
    <Panel
      title={t.integrity.title}
      note={t.integrity.note}
      actions={
        <Button size="sm" icon={ShieldCheck} busy={check.isFetching} onClick={() => void check.refetch()}>
          {t.integrity.run}
        </Button>
      }
    >
      <div aria-live="polite" className="flex flex-col gap-4">
        {!check.data && !check.error && <p className="max-w-[72ch] text-ink-2 text-sm">{t.integrity.text}</p>}
        {check.error && <ErrorNote error={check.error} />}
        {check.data && <Found report={check.data} />}
      </div>
    </Panel>
  );
}

function Found({ report }: { report: Report }) {
  const t = useT();
  const format = useFormat();
  const { ok, rows, rollup_rows_sum, mismatches, checked_from, checked_to, spool } = report;
  const number = format.integer;
  const columns: Column<Mismatch>[] = [
    { id: "hour", head: t.integrity.hour, cell: (it) => format.dateMinute(it.from) },
    { id: "rows", head: t.integrity.inRows, numeric: true, cell: (it) => number(it.rows.requests) },
    { id: "hours", head: t.integrity.inHours, numeric: true, cell: (it) => number(it.hourly.requests) },
    {
      id: "days",
      head: t.integrity.inDays,
      numeric: true,
      cell: (it) => (it.daily ? number(it.daily.requests) : "–"),
    },
  ];
  return (
    <>
      <p className="flex items-center gap-2">
        <StateShape tone={ok ? "ok" : "bad"} className={ok ? "text-ok" : "text-bad"} />
        {ok
          ? t.integrity.ok(number(rows))
          : t.integrity.bad(number(rows), number(rollup_rows_sum), number(mismatches.length))}
      </p>
      {checked_from && checked_to && (
        <p className="text-ink-2 text-sm">
          {t.integrity.range(format.dateMinute(checked_from), format.dateMinute(checked_to))}
        </p>
      )}
      {mismatches.length > 0 && (
        <Table
          label={t.integrity.title}
          columns={columns}
          list={{ data: mismatches, error: null }}
          rowKey={(it) => it.from}
        />
      )}
      <section className="flex flex-col gap-2">
        <h3 className="font-medium text-sm">{t.integrity.spool}</h3>
        <Facts
          facts={[
            [t.integrity.written, number(spool.written)],
            [t.integrity.shipped, number(spool.shipped)],
            [t.integrity.replayed, number(spool.replayed)],
            [t.integrity.errors, number(spool.write_errors)],
            [t.integrity.torn, number(spool.torn)],
            [t.integrity.backlog, format.bytes(spool.backlog_bytes)],
          ]}
        />
      </section>
    </>
  );
}
