import { ChevronDown, ChevronRight } from "lucide-react";
import { IconButton } from "@/kit/button";
import { Checkbox } from "@/kit/choices";
import { Link } from "@/kit/link";
import type { Column } from "@/kit/table";
import { Middle } from "@/kit/text";
import { ContextCell, EngineCell, ErrorCell, GpusCell, StateCell, Uptime } from "./cells";
import { quantizationOf, type Row } from "./rows";
import type { useT } from "./t";

export type ListTools = {
  t: ReturnType<typeof useT>;
  chosen: Set<string>;
  choose: (key: string, to: boolean) => void;
  isOpen: (row: Row) => boolean;
  toggle: (row: Row) => void;
  rate: (row: Row) => string;
  maySelect: boolean;
  /** On a phone the state stands below the name: beside it and the buttons there is no room. */
  narrow: boolean;
};

/** The columns of the list of models. */
export function columnsOf(tools: ListTools): Column<Row>[] {
  const { t, chosen, choose, isOpen, toggle, rate, maySelect, narrow } = tools;
  const name: Column<Row> = {
    id: "name",
    head: t.col.name,
    sort: "name",
    cell: (row) => (
      <div className="grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-1">
        <span className="flex items-center gap-1">
          <IconButton
            icon={isOpen(row) ? ChevronDown : ChevronRight}
            size="sm"
            label={isOpen(row) ? t.shut(row.name) : t.open(row.name)}
            aria-expanded={isOpen(row)}
            className="-ml-2"
            onClick={() => toggle(row)}
          />
          {maySelect && row.kind === "model" && (
            <span className="mx-1.5 flex">
              <Checkbox
                aria-label={t.select(row.name)}
                checked={chosen.has(row.key)}
                onChecked={(to) => choose(row.key, to)}
              />
            </span>
          )}
          {maySelect && row.kind === "entry" && <span className="mx-1.5 w-4 shrink-0" />}
        </span>
        {row.kind === "model" ? (
          <Link
            to="/models/$id"
            params={{ id: String(row.model.id) }}
            className="flex min-w-0 max-w-44 font-medium text-ink sm:max-w-72 2xl:max-w-96"
          >
            <Middle text={row.name} />
          </Link>
        ) : (
          <span className="flex min-w-0 max-w-44 font-medium sm:max-w-72 2xl:max-w-96">
            <Middle text={row.name} />
          </span>
        )}
        {narrow && (
          <div className="col-start-2 pb-1">
            <StateCell row={row} />
          </div>
        )}
      </div>
    ),
  };
  const state: Column<Row> = {
    id: "state",
    head: t.col.state,
    sort: "state",
    cell: (row) => <StateCell row={row} />,
  };
  const word = (text: string | null) => text ?? <span className="text-ink-3">–</span>;
  return [
    name,
    ...(narrow ? [] : [state]),
    { id: "engine", head: t.col.engine, sort: "engine", wide: true, cell: (row) => <EngineCell row={row} /> },
    {
      id: "quantization",
      head: t.col.quantization,
      extra: true,
      cell: (row) => word(row.kind === "model" ? quantizationOf(row.model) : null),
    },
    {
      id: "context",
      head: t.col.context,
      numeric: true,
      wide: true,
      cell: (row) => <ContextCell row={row} />,
    },
    { id: "gpus", head: t.col.gpus, extra: true, cell: (row) => <GpusCell row={row} /> },
    { id: "rate", head: t.col.rate, numeric: true, wide: true, cell: rate },
    {
      id: "uptime",
      head: t.col.uptime,
      numeric: true,
      roomy: true,
      cell: (row) =>
        row.kind === "model" && row.model.state === "running" ? <Uptime model={row.model} /> : word(null),
    },
    {
      id: "error",
      head: t.col.error,
      roomy: true,
      cell: (row) => <ErrorCell row={row} />,
    },
  ];
}
