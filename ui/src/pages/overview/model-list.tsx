import type { Item, Model } from "@/api/types";
import { useModelMetrics } from "@/data/models";
import { useFormat } from "@/i18n";
import { Badge, StateBadge } from "@/kit/badge";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { type Column, type ListState, Table } from "@/kit/table";
import { Middle } from "@/kit/text";
import { useT as useModelT } from "@/parts/models/t";
import { useT } from "./t";

const ORDER: Model["state"][] = ["failed", "starting", "loading", "stopping", "running", "stopped"];
/** More would push everything else off the page. */
const SHOWN = 12;

/** The models, those that want attention first. */
export function ModelList({ models }: { models: ListState<Model> }) {
  const t = useT();
  const m = useModelT();
  const format = useFormat();
  const { data: metrics = [] } = useModelMetrics(models.data?.some((it) => it.state === "running"));
  const of = (model: Model): Item<"listModelMetrics"> | undefined =>
    metrics.find((it) => it.model_id === model.id);
  const sorted = models.data
    ?.toSorted(
      (a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.served_name.localeCompare(b.served_name),
    )
    .slice(0, SHOWN);
  if (models.data?.length === 0) return null;
  const columns: Column<Model>[] = [
    {
      id: "name",
      head: t.models.name,
      cell: (it) => (
        <Link
          to="/models/$id"
          params={{ id: String(it.id) }}
          className="flex max-w-36 font-medium text-ink sm:max-w-40 2xl:max-w-52"
        >
          <Middle text={it.served_name} />
        </Link>
      ),
    },
    { id: "state", head: t.models.state, cell: (it) => <StateBadge state={it.state} /> },
    {
      id: "engine",
      head: t.models.engine,
      wide: true,
      cell: (it) => (
        <span className="flex items-center gap-2 text-ink-2">
          {m.engine[it.engine_type]}
          {it.simulator && <Badge>{m.simulator}</Badge>}
        </span>
      ),
    },
    {
      id: "running",
      head: t.models.running,
      numeric: true,
      wide: true,
      cell: (it) => {
        const now = of(it);
        if (now?.requests_running == null) return "–";
        return `${format.integer(now.requests_running)}${now.requests_waiting ? ` ${t.models.waiting(format.integer(now.requests_waiting))}` : ""}`;
      },
    },
    {
      id: "cache",
      head: t.models.cache,
      numeric: true,
      wide: true,
      cell: (it) => {
        const used = of(it)?.kv_cache_usage;
        return used == null ? "–" : format.percent(used * 100);
      },
    },
  ];
  return (
    <Panel
      title={t.models.title}
      flush
      actions={
        <Link to="/models" className="text-sm">
          {t.models.all}
        </Link>
      }
    >
      <Table
        label={t.models.title}
        columns={columns}
        list={{ ...models, data: sorted }}
        rowKey={(it) => it.id}
      />
    </Panel>
  );
}
