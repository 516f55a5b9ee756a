import type { Item, UsageRow } from "@/api/types";
import { useOwnModels } from "@/data/own-models";
import { useOwnUsageRows } from "@/data/usage";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { EmptyState } from "@/kit/empty-state";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { Middle, RelativeTime } from "@/kit/text";
import { useT } from "./t";

/** The models that one may call. */
export function OwnModels() {
  const t = useT();
  const models = useOwnModels();
  const columns: Column<Item<"listOwnModels">>[] = [
    {
      id: "name",
      head: t.models.name,
      cell: (it) => <Middle text={it.served_name} className="max-w-32 font-medium sm:max-w-64" />,
    },
    {
      id: "state",
      head: t.models.state,
      cell: (it) => (
        <StateBadge state={it.callable ? "running" : (it.state ?? "unhealthy")}>
          {it.callable ? t.own.callable : t.own.notCallable}
        </StateBadge>
      ),
    },
    {
      id: "try",
      head: "",
      cell: (it) =>
        it.callable && (
          <Link to="/playground" search={{ model: it.served_name }}>
            {t.own.try}
          </Link>
        ),
    },
  ];
  return (
    <Panel title={t.own.models} flush>
      <Table
        label={t.own.models}
        columns={columns}
        list={models}
        rowKey={(it) => it.served_name}
        empty={<EmptyState title={t.own.noModels} />}
      />
    </Panel>
  );
}

/** One's own newest requests. */
export function OwnRequests() {
  const t = useT();
  const format = useFormat();
  const rows = useOwnUsageRows({ limit: 10, hours: 24 }, { refetchInterval: 5000 });
  const columns: Column<UsageRow>[] = [
    { id: "time", head: t.own.time, cell: (it) => <RelativeTime at={it.created_at} /> },
    { id: "model", head: t.own.model, cell: (it) => <Middle text={it.model_name} className="max-w-48" /> },
    {
      id: "status",
      head: t.own.outcome,
      cell: (it) => (
        <StateBadge state={it.outcome === "ok" ? "ok" : "error"}>{String(it.status_code)}</StateBadge>
      ),
    },
    {
      id: "tokens",
      head: t.own.tokens,
      numeric: true,
      wide: true,
      cell: (it) => `${it.estimated ? "~" : ""}${format.integer(it.total_tokens)}`,
    },
    { id: "latency", head: t.own.latency, numeric: true, cell: (it) => format.duration(it.latency_ms) },
  ];
  return (
    <Panel title={t.own.requests} flush>
      <Table
        label={t.own.requests}
        columns={columns}
        list={{ data: rows.data?.items, error: rows.error, refetch: rows.refetch }}
        rowKey={(it) => it.id}
        empty={<EmptyState title={t.own.noRequests} />}
      />
    </Panel>
  );
}
