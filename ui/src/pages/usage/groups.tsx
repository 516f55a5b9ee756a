import { type Group, type GroupQuery, useGroups } from "@/data/usage-explore";
import { useFormat } from "@/i18n";
import { Segmented } from "@/kit/choices";
import { EmptyState } from "@/kit/empty-state";
import { NameButton } from "@/kit/name-button";
import { Pager, usePage } from "@/kit/pager";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { useUrlState } from "@/kit/url-state";
import { SHOWN_GROUPS, useDimension } from "./dimension";
import { type Dimension, NO_MODEL, type Usage } from "./filter";
import { groupName } from "./group-name";
import { useT } from "./t";

const SORTS = [
  "requests",
  "errors",
  "prompt_tokens",
  "completion_tokens",
  "total_tokens",
  "p50_ms",
  "p95_ms",
] as const;

/** The address' word for a group, where there is a filter for it. */
function wordOf(group: Group, by: Dimension): string | undefined {
  if (by === "model") return group.model_name || NO_MODEL;
  return group.group_id === null ? undefined : String(group.group_id);
}

/** Sums by a dimension; a click on a name filters by it. */
export function Groups({ usage }: { usage: Usage }) {
  const t = useT();
  const { all, by, set } = useDimension(usage);
  const [sortWord] = useUrlState("sort", "-requests");
  const at = usePage(JSON.stringify([by, usage.filter, usage.range]), SHOWN_GROUPS);
  const sort = SORTS.flatMap((it): GroupQuery["sort"][] => [it, `-${it}`]).find((it) => it === sortWord);
  const groups = useGroups(
    { ...usage.now, group_by: by, sort: sort ?? "-requests", limit: at.limit, offset: at.offset },
    usage.own,
  );
  return (
    <Panel
      title={t.groups.title}
      flush
      actions={
        <Segmented
          label={t.groups.dimension}
          value={by}
          onValue={(to) => set(to)}
          options={all.map((value) => ({ value, label: t.series.bys[value] }))}
        />
      }
    >
      <Table
        label={`${t.groups.title}: ${t.series.bys[by]}`}
        columns={useColumns(usage, by)}
        list={{ data: groups.data?.items, error: groups.error, refetch: groups.refetch }}
        rowKey={(it) => `${it.group_id} ${it.group}`}
        defaultSort="-requests"
        empty={<EmptyState title={t.groups.none} />}
      />
      <Pager at={at} total={groups.data?.total} />
    </Panel>
  );
}

function useColumns(usage: Usage, by: Dimension): Column<Group>[] {
  const t = useT();
  const format = useFormat();
  const count = (id: string, head: string, of: (it: Group) => number, wide: boolean, sort?: string) => ({
    id,
    head,
    numeric: true,
    wide,
    sort,
    cell: (it: Group) => <span title={format.integer(of(it))}>{format.compact(of(it))}</span>,
  });
  return [
    {
      id: "group",
      head: t.groups.group,
      cell: (it) => {
        const name = groupName(it, by, t);
        const word = wordOf(it, by);
        if (word === undefined) return <span className="text-ink-2">{name}</span>;
        return (
          <NameButton name={name} label={t.groups.filter(name)} onPress={() => usage.set({ [by]: word })} />
        );
      },
    },
    count("requests", t.groups.requests, (it) => it.requests, false, "requests"),
    count("errors", t.groups.errors, (it) => it.errors, false, "errors"),
    count("input", t.groups.input, (it) => it.prompt_tokens, true, "prompt_tokens"),
    count("cached", t.groups.cached, (it) => it.cached_tokens, true),
    count("output", t.groups.output, (it) => it.completion_tokens, true, "completion_tokens"),
    count("total", t.groups.total, (it) => it.total_tokens, true, "total_tokens"),
    {
      id: "p50",
      head: t.groups.p50,
      numeric: true,
      wide: true,
      sort: "p50_ms",
      cell: (it) => format.duration(it.p50_ms),
    },
    {
      id: "p95",
      head: t.groups.p95,
      numeric: true,
      wide: true,
      sort: "p95_ms",
      cell: (it) => format.duration(it.p95_ms),
    },
  ];
}
