import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { Row, type TableProps } from "./table";

const ROW = 37;
const SPARE = 12;

type Props<T> = TableProps<T> & { head: ReactNode; data: T[]; height: number };

/**
 * The rows of a long table: only those in sight are in the document, between two empty rows that are as high as the others.
 * All rows have one height, and the columns keep their width while rows come and go.
 */
export function VirtualRows<T>({
  label,
  columns,
  rowKey,
  actions,
  onRow,
  onEnd,
  head,
  data,
  height,
}: Props<T>) {
  const [first, setFirst] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  // React leaves a row alone whose element is the one that it had: while scrolling only new rows are drawn.
  const draw = useMemo(() => {
    const drawn = new Map<T, ReactNode>();
    return (row: T) => {
      const known = drawn.get(row);
      if (known) return known;
      const made = (
        <Row key={rowKey(row)} row={row} columns={columns} actions={actions} onRow={onRow} oneLine />
      );
      drawn.set(row, made);
      return made;
    };
  }, [rowKey, columns, actions, onRow]);
  const from = Math.max(0, Math.min(first, data.length) - SPARE);
  const to = Math.min(data.length, first + Math.ceil(height / ROW) + SPARE);
  const last = to === data.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is called once for each end that is reached
  useEffect(() => {
    if (last) onEnd?.();
  }, [last, data.length]);
  return (
    <div
      ref={box}
      role="region"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      className="overflow-auto"
      style={{ maxHeight: height }}
      onScroll={(event) => setFirst(Math.floor(event.currentTarget.scrollTop / ROW / 4) * 4)}
    >
      <table
        className="w-full min-w-160 table-fixed border-separate border-spacing-0"
        aria-rowcount={data.length}
      >
        <caption className="sr-only">{label}</caption>
        {head}
        <tbody>
          <tr aria-hidden style={{ height: from * ROW }} />
          {data.slice(from, to).map(draw)}
          <tr aria-hidden style={{ height: (data.length - to) * ROW }} />
        </tbody>
      </table>
    </div>
  );
}
