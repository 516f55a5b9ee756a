import { useEffect, useMemo, useState } from "react";
import { Gate } from "@/app/gate";
import { type AuditRow, useAuditLog, useAuditTotal } from "@/data/audit";
import { useModels } from "@/data/models";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { EmptyState } from "@/kit/empty-state";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { Middle, RelativeTime } from "@/kit/text";
import { useUrlState } from "@/kit/url-state";
import { ChainState } from "./chain-state";
import { changesOf } from "./changes";
import { Filters, useFilter } from "./filters";
import { namesOf } from "./names";
import { RowDrawer } from "./row-drawer";
import { useT } from "./t";
import { actionText, actorText } from "./words";

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="listAuditLog" title={c.page.audit}>
      <Audit />
    </Gate>
  );
}

/** The table takes what is left of the window, and scrolls by itself. */
function useRoom(): number {
  const room = () => Math.max(320, innerHeight - (innerWidth < 768 ? 200 : 260));
  const [height, setHeight] = useState(room);
  useEffect(() => {
    const resize = () => setHeight(room());
    addEventListener("resize", resize);
    return () => removeEventListener("resize", resize);
  });
  return height;
}

function Audit() {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const { filter, filtered } = useFilter();
  const log = useAuditLog(filter);
  const total = useAuditTotal(filter);
  const [open, setOpen] = useUrlState("row");
  const height = useRoom();
  const rows = log.data?.rows;
  const fresh = log.data && total.data !== undefined ? total.data - log.data.total : 0;
  const shown = rows?.find((it) => String(it.seq) === open);
  const models = useModels().data;
  const nameOf = useMemo(() => namesOf(rows ?? [], models ?? []), [rows, models]);
  return (
    <>
      <PageHeader title={c.page.audit} />
      <PageBody>
        <Filters />
        {rows && rows.length > 0 && <ChainState rows={rows} />}
        <Panel
          flush
          title={
            log.data
              ? t.count(format.integer(rows?.length ?? 0), format.integer(log.data.total))
              : c.word.loading
          }
          actions={
            fresh > 0 ? (
              <Button size="sm" look="primary" onClick={() => void log.refetch()}>
                {fresh === 1 ? t.oneNewRow : t.newRows(format.integer(fresh))}
              </Button>
            ) : (
              log.isFetchingNextPage && <span className="text-ink-3 text-sm">{t.loadingMore}</span>
            )
          }
        >
          <Table
            label={c.page.audit}
            columns={useColumns(setOpen, nameOf)}
            list={{ data: rows, error: log.error, refetch: log.refetch }}
            rowKey={(it) => it.seq}
            onRow={(it) => setOpen(String(it.seq))}
            virtualHeight={height}
            onEnd={() => {
              if (log.hasNextPage && !log.isFetching) void log.fetchNextPage();
            }}
            empty={<EmptyState title={filtered ? t.noMatch : t.none} command="gantry audit list" />}
          />
        </Panel>
        {shown && <RowDrawer row={shown} name={nameOf(shown)} onClose={() => setOpen("")} />}
      </PageBody>
    </>
  );
}

function useColumns(
  setOpen: (to: string) => void,
  nameOf: (row: AuditRow) => string | undefined,
): Column<AuditRow>[] {
  const t = useT();
  const format = useFormat();
  return [
    {
      id: "action",
      head: t.columns.action,
      width: "34%",
      cell: (it) => (
        <button
          type="button"
          onClick={() => setOpen(String(it.seq))}
          className="max-w-full truncate rounded-sm text-left text-accent-text hover:underline"
        >
          {actorText(it, t)} {actionText(it, t)}
        </button>
      ),
    },
    { id: "at", head: t.columns.at, width: "10rem", cell: (it) => <RelativeTime inList at={it.at} /> },
    {
      id: "object",
      head: t.columns.object,
      wide: true,
      width: "20%",
      cell: (it) => (
        <span className="flex min-w-0 gap-1.5">
          <span className="shrink-0 text-ink-3">{t.objects[it.object_type]}</span>
          <Middle text={nameOf(it) ?? it.object_id} />
          {nameOf(it) !== undefined && <span className="shrink-0 text-ink-3">{it.object_id}</span>}
        </span>
      ),
    },
    {
      id: "what",
      head: t.columns.what,
      wide: true,
      width: "26%",
      cell: (it) => {
        const names = changesOf(it).map(({ field }) => field);
        return (
          <span className="text-ink-2">
            {names.length > 0 && it.before && it.after
              ? t.fields(format.list(names.slice(0, 3)), names.length - 3)
              : ""}
          </span>
        );
      },
    },
    {
      id: "ip",
      head: t.columns.ip,
      wide: true,
      width: "9rem",
      cell: (it) => <span className="text-ink-2">{it.ip ?? "–"}</span>,
    },
  ];
}
