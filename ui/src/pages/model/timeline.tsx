import { useState } from "react";
import type { Item, Model } from "@/api/types";
import { useModelEvents } from "@/data/model-detail";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { EmptyState } from "@/kit/empty-state";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { RelativeTime } from "@/kit/text";
import { Prose } from "@/parts/models/prose";
import { useT } from "./t";

type Event = Item<"listModelEvents">;

/** Every change of a model's state, the newest first: why, and how long the state before lasted. */
export function Timeline({ model }: { model: Model }) {
  const t = useT();
  const format = useFormat();
  const [limit, setLimit] = useState(50);
  const events = useModelEvents(model.id, model.state, limit);
  const columns: Column<Event>[] = [
    { id: "at", head: t.timeline.at, cell: (it) => <RelativeTime at={it.at} /> },
    { id: "change", head: t.timeline.change, cell: (it) => <StateBadge state={it.to} /> },
    {
      id: "reason",
      head: t.timeline.reason,
      cell: (it) => (
        <span className="block min-w-40 max-w-[60ch]">
          {it.reason && <Prose text={it.reason} className="font-medium" />}{" "}
          {it.detail && <Prose text={it.detail} asIs={Boolean(it.reason)} className="text-ink-2" />}
        </span>
      ),
    },
    {
      id: "took",
      head: t.timeline.took,
      numeric: true,
      wide: true,
      cell: (it) => (it.duration_ms === null ? "–" : format.duration(it.duration_ms)),
    },
  ];
  return (
    <Panel flush>
      <Table
        label={t.tab.timeline}
        list={events}
        columns={columns}
        rowKey={(it) => `${it.at} ${it.from} ${it.to}`}
        empty={<EmptyState title={t.timeline.empty} />}
      />
      {events.data && events.data.length >= limit && limit < 1000 && (
        <div className="flex items-center gap-3 border-line border-t px-4 py-2 text-ink-2 text-sm">
          {t.timeline.latest(format.integer(events.data.length))}
          <Button size="sm" onClick={() => setLimit(limit * 4)}>
            {t.timeline.more}
          </Button>
        </div>
      )}
    </Panel>
  );
}
