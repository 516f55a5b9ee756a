import { ChevronDown, ChevronUp } from "lucide-react";
import type { MouseEvent, ReactNode } from "react";
import { useT } from "@/i18n";
import { cn } from "./cn";
import { EmptyState } from "./empty-state";
import { ErrorState } from "./error-state";
import { Skeleton } from "./skeleton";
import { VirtualRows } from "./table-virtual";
import { useUrlState } from "./url-state";

export type Column<T> = {
  id: string;
  head: ReactNode;
  /** What stands in the row. The first column is the row's name, and a link where there is a page for it. */
  cell: (row: T) => ReactNode;
  /** Numbers stand at the right. */
  numeric?: boolean;
  /** The word that the list is sorted by; without it the column can't be sorted. */
  sort?: string;
  /** Left out on small screens. */
  wide?: boolean;
  /** Left out below 1280 px. */
  roomy?: boolean;
  /** Left out below 1536 px, for what the row's drawer says, too. */
  extra?: boolean;
  width?: string;
};

/** What TanStack Query says about a list; only these are needed. */
export type ListState<T> = { data: T[] | undefined; error: unknown; refetch?: () => unknown };

export type TableProps<T> = {
  /** Says what the rows are, for screen readers. */
  label: string;
  columns: Column<T>[];
  list: ListState<T>;
  rowKey: (row: T) => string | number;
  /** Shown in place of the rows if there are none. */
  empty?: ReactNode;
  /** The word in the address that says how it is sorted: `name` or `-name`. */
  sortParam?: string;
  defaultSort?: string;
  /** Stands at the end of each row: visible on hover, on focus, and always on touch screens. */
  actions?: (row: T) => ReactNode;
  /** Called when a row is clicked beside its links and buttons, for a drawer. Put a button or link into the first cell, too. */
  onRow?: (row: T) => void;
  /** A part that opens below the row. */
  expanded?: (row: T) => ReactNode;
  /** Draws only the rows in sight, in a box of this height in pixels: for more than a few hundred rows. */
  virtualHeight?: number;
  /** Called when the last rows of such a table come into sight, to fetch more. */
  onEnd?: () => void;
};

/** The first column names the row: nothing beside it takes its room. */
export const CELL =
  "h-9 max-w-96 border-line border-b px-3 py-1 align-middle text-sm first:min-w-44 first:pl-4 last:pr-4 md:first:min-w-64";

/** The classes of a cell of this column. */
export function cellClass<T>(column: Column<T>): string {
  return cn(
    CELL,
    column.numeric && "text-right tabular-nums whitespace-nowrap",
    column.wide && "hidden md:table-cell",
    column.roomy && "hidden xl:table-cell",
    column.extra && "hidden 2xl:table-cell",
  );
}

/** Whether a click was meant for something in the row and not for the row. */
function isForRow(event: MouseEvent): boolean {
  const inside =
    event.target instanceof Element && event.target.closest("a, button, input, select, label, summary");
  return !inside && !getSelection()?.toString();
}

function SortHead<T>({
  column,
  sort,
  onSort,
}: {
  column: Column<T>;
  sort: string;
  onSort: (to: string) => void;
}) {
  const t = useT();
  const word = column.sort ?? "";
  const up = sort === word;
  const down = sort === `-${word}`;
  const Icon = up ? ChevronUp : ChevronDown;
  const name = typeof column.head === "string" ? column.head : word;
  return (
    <button
      type="button"
      title={t.table.sortBy(name)}
      className={cn("inline-flex items-center gap-1 rounded-sm hover:text-ink", (up || down) && "text-ink")}
      // Numbers are wanted large first, names from A on.
      onClick={() => onSort(up ? `-${word}` : down ? word : column.numeric ? `-${word}` : word)}
    >
      {column.head}
      <Icon aria-hidden className={cn("size-3.5", !up && !down && "opacity-0")} />
    </button>
  );
}

/** The cells of one row. */
export function Cells<T>({
  row,
  columns,
  actions,
}: {
  row: T;
  columns: Column<T>[];
  actions?: (row: T) => ReactNode;
}) {
  return (
    <>
      {columns.map((column) => (
        <td key={column.id} className={cellClass(column)}>
          {column.cell(row)}
        </td>
      ))}
      {actions && (
        <td
          className={cn(
            CELL,
            "sticky right-0 w-px group-focus-within:bg-hover group-hover:bg-hover pointer-coarse:bg-panel",
          )}
        >
          <div className="flex justify-end gap-1 opacity-0 transition-opacity duration-100 focus-within:opacity-100 group-focus-within:opacity-100 group-hover:opacity-100 pointer-coarse:opacity-100">
            {actions(row)}
          </div>
        </td>
      )}
    </>
  );
}

/** A list: its head stays in sight, columns sort through the address, and it says when it loads, failed or is empty. */
export function Table<T>(props: TableProps<T>) {
  const {
    label,
    columns,
    list,
    rowKey,
    empty,
    sortParam = "sort",
    defaultSort = "",
    actions,
    onRow,
    expanded,
    virtualHeight,
  } = props;
  const t = useT();
  const [sort, setSort] = useUrlState(sortParam, defaultSort);
  const { data, error, refetch } = list;
  if (error && !data)
    return <ErrorState error={error} onRetry={refetch ? () => void refetch() : undefined} />;
  if (data?.length === 0) return <>{empty ?? <EmptyState title={t.table.empty} />}</>;
  const head = (
    <thead className="sticky top-0 z-10 bg-panel">
      <tr>
        {columns.map((column) => {
          const sorted =
            column.sort &&
            (sort === column.sort ? "ascending" : sort === `-${column.sort}` ? "descending" : "none");
          return (
            <th
              key={column.id}
              scope="col"
              aria-sort={sorted || undefined}
              style={column.width ? { width: column.width } : undefined}
              className={cn(
                cellClass(column),
                "whitespace-nowrap text-left font-medium text-ink-2",
                column.numeric && "text-right",
              )}
            >
              {column.sort ? <SortHead column={column} sort={sort} onSort={setSort} /> : column.head}
            </th>
          );
        })}
        {actions && (
          <th scope="col" className={CELL}>
            <span className="sr-only">{t.table.actions}</span>
          </th>
        )}
      </tr>
    </thead>
  );
  if (virtualHeight && data) {
    return <VirtualRows {...props} head={head} data={data} height={virtualHeight} />;
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={label} aria-busy={!data}>
      <table className="w-full border-separate border-spacing-0">
        <caption className="sr-only">{label}</caption>
        {head}
        <tbody className="[&>tr:last-child>td]:border-b-0">
          {data
            ? data.map((row) => (
                <Row
                  key={rowKey(row)}
                  row={row}
                  columns={columns}
                  actions={actions}
                  onRow={onRow}
                  expanded={expanded?.(row)}
                />
              ))
            : [0, 1, 2, 3, 4].map((row) => (
                <tr key={row}>
                  {columns.map((column) => (
                    <td key={column.id} className={cellClass(column)}>
                      <Skeleton className="h-3 w-2/3" />
                    </td>
                  ))}
                  {actions && <td className={CELL} />}
                </tr>
              ))}
        </tbody>
      </table>
    </div>
  );
}

type RowProps<T> = Pick<TableProps<T>, "columns" | "actions" | "onRow"> & {
  row: T;
  expanded?: ReactNode;
  oneLine?: boolean;
};

/** One row, with the part that opens below it. */
export function Row<T>({ row, columns, actions, onRow, expanded, oneLine }: RowProps<T>) {
  return (
    <>
      <tr
        className={cn("group hover:bg-hover", onRow && "cursor-pointer", oneLine && "[&>td]:truncate")}
        onClick={onRow ? (event) => isForRow(event) && onRow(row) : undefined}
      >
        <Cells row={row} columns={columns} actions={actions} />
      </tr>
      {expanded && (
        <tr>
          <td colSpan={columns.length + (actions ? 1 : 0)} className="border-line border-b bg-bg px-4 py-3">
            {expanded}
          </td>
        </tr>
      )}
    </>
  );
}
