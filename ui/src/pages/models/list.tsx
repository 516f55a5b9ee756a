import { Boxes } from "lucide-react";
import { useState } from "react";
import { rateBetween, useMetricSamples } from "@/data/metric-samples";
import { useMay } from "@/data/session";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { Checkbox } from "@/kit/choices";
import { EmptyState } from "@/kit/empty-state";
import { FilterChips } from "@/kit/filter-chips";
import { ButtonLink } from "@/kit/link";
import { useMedia } from "@/kit/media";
import { Pager } from "@/kit/pager";
import { Panel } from "@/kit/panel";
import { SearchInput } from "@/kit/search-input";
import { Table } from "@/kit/table";
import { BulkBar } from "./bulk-bar";
import { columnsOf } from "./columns";
import { type Asked, Dialogs } from "./dialogs";
import { RowActions } from "./row-actions";
import { RowDetail } from "./row-detail";
import { type Row, STATES, stateOf } from "./rows";
import { useT } from "./t";
import { useList } from "./use-list";

/** Every model and every engine elsewhere, live, with filters by state. */
export function ModelList({ asked, ask }: { asked: Asked; ask: (to: Asked) => void }) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const may = useMay();
  const narrow = useMedia("(max-width: 639px)");
  const list = useList();
  const { models, rows = [], found, shown } = list;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const { data: samples = [] } = useMetricSamples(rows.some((it) => stateOf(it) === "running"));
  const rate = (row: Row) => {
    const value = row.kind === "model" ? rateBetween(samples.at(-2), samples.at(-1), row.model.id) : null;
    return value === null ? "–" : format.decimal(value, value < 10 ? 1 : 0);
  };
  const choose = (key: string, to: boolean) => {
    const next = new Set(chosen);
    if (to) next.add(key);
    else next.delete(key);
    setChosen(next);
  };
  const chips = STATES.map((value) => ({
    value,
    label: c.state[value],
    count: rows.filter((it) => stateOf(it) === value).length,
  })).filter((it) => it.count > 0);
  const selected = rows.filter((it) => chosen.has(it.key));
  const selectable = (shown ?? []).filter((it) => it.kind === "model");
  const all = selectable.length > 0 && selectable.every((it) => chosen.has(it.key));
  const maySelect = may("startModel");
  return (
    <>
      <div className="flex flex-wrap items-center gap-3">
        <SearchInput label={t.search} />
        <FilterChips label={t.states} chips={chips} />
        <div className="ml-auto flex flex-wrap items-center gap-4">
          {maySelect && selectable.length > 1 && (
            <Checkbox
              label={t.selectAll}
              checked={all}
              mixed={!all && selected.length > 0}
              onChecked={(to) => setChosen(new Set(to ? selectable.map((it) => it.key) : []))}
            />
          )}
          <Checkbox label={t.archived} checked={list.archived} onChecked={list.setArchived} />
        </div>
      </div>
      {selected.length > 0 && (
        <BulkBar
          rows={selected}
          onClear={() => setChosen(new Set())}
          onStop={(of) => ask({ kind: "stop", rows: of })}
        />
      )}
      <Panel flush>
        <Table
          label={t.list}
          list={{ ...models, data: shown }}
          columns={columnsOf({
            t,
            chosen: new Set(chosen),
            choose,
            isOpen: list.isOpen,
            toggle: list.toggle,
            rate,
            maySelect,
            narrow,
          })}
          rowKey={(it) => it.key}
          onRow={list.toggle}
          expanded={(it) =>
            list.isOpen(it) && (
              <div className="sticky left-4 max-w-[min(64rem,calc(100vw-4rem))]">
                <RowDetail row={it} />
              </div>
            )
          }
          actions={(it) => (
            <RowActions
              row={it}
              onStop={(row) => ask({ kind: "stop", rows: [row] })}
              onChange={() => it.kind === "entry" && ask({ kind: "change", entry: it.entry })}
              onRemove={() => it.kind === "entry" && ask({ kind: "remove", name: it.name })}
            />
          )}
          empty={
            list.filtered ? (
              <EmptyState title={t.noMatch} action={<Button onClick={list.clear}>{t.clearFilters}</Button>} />
            ) : (
              <EmptyState
                icon={Boxes}
                title={t.empty}
                action={
                  may("createModel") && (
                    <ButtonLink to="/models/new" look="primary">
                      {t.add}
                    </ButtonLink>
                  )
                }
                command="gantry models create --path FILE.gguf --start --wait"
              >
                {t.emptyText}
              </EmptyState>
            )
          }
        />
        <Pager at={list.at} total={found?.length} />
      </Panel>
      <Dialogs asked={asked} ask={ask} entries={rows} onStopped={() => setChosen(new Set())} />
    </>
  );
}
