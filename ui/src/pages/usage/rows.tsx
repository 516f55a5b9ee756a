import { RotateCw } from "lucide-react";
import type { ReactNode } from "react";
import type { UsageRow } from "@/api/types";
import { useT as useCommonT, useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { useMinute } from "@/kit/clock";
import { EmptyState } from "@/kit/empty-state";
import { Panel } from "@/kit/panel";
import { SearchInput } from "@/kit/search-input";
import { type Column, type ListState, Table } from "@/kit/table";
import { Middle } from "@/kit/text";
import { useUrl } from "@/kit/url-state";
import { useT } from "./t";

type RowsProps = {
  list: ListState<UsageRow>;
  total: number | undefined;
  /** How many rows came since the list was loaded. */
  newer: number;
  onNewer: () => void;
  /** Loads the next rows; left out where there are none. */
  onMore?: () => void;
  loading: boolean;
  onOpen: (row: UsageRow) => void;
};

/** Single requests, the newest first; further ones are loaded when they are asked for. */
export function Rows({ list, total, newer, onNewer, onMore, loading, onOpen }: RowsProps) {
  const t = useT();
  const format = useFormat();
  const shown = list.data?.length ?? 0;
  const byId = Boolean(useUrl().req_id);
  return (
    <Panel
      title={t.rows.title}
      note={total ? t.rows.more(format.integer(shown), format.integer(total)) : undefined}
      flush
      actions={
        <>
          {newer > 0 && (
            <Button size="sm" icon={RotateCw} onClick={onNewer}>
              {t.rows.newer(format.integer(newer))}
            </Button>
          )}
          <SearchInput param="req_id" label={t.request.id} />
        </>
      }
    >
      <Table
        label={t.rows.title}
        columns={useColumns(onOpen)}
        list={list}
        rowKey={(it) => it.id}
        onRow={onOpen}
        virtualHeight={480}
        sortParam="rows"
        empty={<EmptyState title={t.rows.none}>{byId ? t.rows.noneById : t.rows.noneText}</EmptyState>}
      />
      {onMore && (
        <div className="flex justify-center border-line border-t p-2">
          <Button onClick={onMore} busy={loading}>
            {t.rows.loadMore}
          </Button>
        </div>
      )}
    </Panel>
  );
}

/** Marks tokens that the gateway estimated. */
export function Tokens({ of, row }: { of: number; row: UsageRow }): ReactNode {
  const t = useT();
  const format = useFormat();
  if (!row.estimated) return format.integer(of);
  return <span title={t.rows.estimated}>~{format.integer(of)}</span>;
}

function useColumns(onOpen: (row: UsageRow) => void): Column<UsageRow>[] {
  const t = useT();
  const format = useFormat();
  const c = useCommonT();
  const now = useMinute();
  const when = (at: string) =>
    new Date(at).toDateString() === new Date(now).toDateString() ? format.time(at) : format.dateMinute(at);
  return [
    {
      id: "time",
      head: t.rows.time,
      width: "min(10rem, 24vw)",
      cell: (it) => (
        <button
          type="button"
          onClick={() => onOpen(it)}
          className="rounded-sm text-left text-accent-text hover:underline"
        >
          <span className="sr-only">{t.rows.open} </span>
          <span title={format.relative(it.created_at, now)}>{when(it.created_at)}</span>
        </button>
      ),
    },
    {
      id: "model",
      head: t.rows.model,
      width: "min(14rem, 28vw)",
      cell: (it) => (
        <span className="flex min-w-0">
          {it.model_name ? (
            <Middle text={it.model_name} />
          ) : (
            <span className="text-ink-3">{t.groups.noModel}</span>
          )}
        </span>
      ),
    },
    {
      id: "status",
      head: t.rows.status,
      width: "min(12rem, 20vw)",
      cell: (it) => (
        <span className="inline-flex items-center gap-1.5">
          <StateBadge
            state={it.outcome === "ok" ? "ok" : it.outcome === "client_closed" ? "warning" : "error"}
          >
            {it.status_code}
          </StateBadge>
          <span className="hidden text-ink-2 text-xs md:inline">
            {it.outcome !== "ok" && c.outcome[it.outcome]}
          </span>
          {it.requests > 1 && (
            <span className="text-ink-3">{t.rows.shared(format.integer(it.requests))}</span>
          )}
        </span>
      ),
    },
    {
      id: "key",
      head: t.rows.key,
      width: "8rem",
      wide: true,
      cell: (it) =>
        it.key_prefix ? (
          <code className="font-mono text-xs">{it.key_prefix}…</code>
        ) : (
          <span className="text-ink-3">{t.filters.session}</span>
        ),
    },
    {
      id: "input",
      head: t.rows.input,
      numeric: true,
      width: "6rem",
      wide: true,
      cell: (it) => <Tokens of={it.prompt_tokens} row={it} />,
    },
    {
      id: "output",
      head: t.rows.output,
      numeric: true,
      width: "6rem",
      wide: true,
      cell: (it) => <Tokens of={it.completion_tokens} row={it} />,
    },
    {
      id: "ttft",
      head: t.rows.ttft,
      numeric: true,
      width: "6rem",
      wide: true,
      cell: (it) =>
        it.ttft_ms === null ? <span className="text-ink-3">–</span> : format.duration(it.ttft_ms),
    },
    {
      id: "latency",
      head: t.rows.latency,
      numeric: true,
      width: "min(6rem, 20vw)",
      cell: (it) => format.duration(it.latency_ms),
    },
  ];
}
