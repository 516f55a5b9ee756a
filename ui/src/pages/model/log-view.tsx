import { type RefObject, useEffect, useImperativeHandle, useRef } from "react";
import { VList, type VListHandle } from "virtua";
import { cn } from "@/kit/cn";
import type { Color } from "./log-colors";
import { type Line, piecesOf } from "./log-lines";

export type LogViewHandle = { show: (place: number) => void };

type LogViewProps = {
  lines: Line[];
  label: string;
  word: string;
  /** The number of the line that is pointed at: a match, or evidence. A filter changes its place, not its number. */
  current: number | null;
  wrap: boolean;
  follow: boolean;
  onFollow: (to: boolean) => void;
  handle: RefObject<LogViewHandle | null>;
};

const LEVEL: Record<Line["level"], string> = {
  error: "text-bad",
  warning: "text-warn",
  info: "text-ink",
};

/** The colours of a terminal, as far as both themes have them. */
const COLORS: Record<Color, string> = {
  red: "text-bad",
  green: "text-ok",
  yellow: "text-warn",
  blue: "text-busy",
  magenta: "text-series-4",
  cyan: "text-accent-text",
  grey: "text-ink-3",
};

/** A log of any length: only the lines in sight are in the document. It stays at its end until somebody scrolls up. */
export function LogView({ lines, label, word, current, wrap, follow, onFollow, handle }: LogViewProps) {
  const list = useRef<VListHandle>(null);
  const before = useRef(0);
  useImperativeHandle(handle, () => ({
    show: (place) => list.current?.scrollToIndex(place, { align: "center" }),
  }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: it scrolls again whenever lines come
  useEffect(() => {
    if (follow && lines.length > 0) list.current?.scrollToIndex(lines.length - 1, { align: "end" });
  }, [lines, follow, wrap]);
  const onScroll = (offset: number) => {
    const it = list.current;
    if (!it) return;
    const end = offset >= it.scrollSize - it.viewportSize - 20;
    // Lines that come push the end away, but move nothing up: only a reader does.
    if (end !== follow && (end || offset < before.current)) onFollow(end);
    before.current = offset;
  };
  return (
    <VList
      ref={list}
      data={lines}
      itemSize={18}
      onScroll={onScroll}
      role="log"
      aria-live="off"
      aria-label={label}
      tabIndex={0}
      className={cn(
        "px-3 py-2 font-mono text-xs leading-[18px] -outline-offset-2",
        wrap && "overflow-x-hidden!",
      )}
    >
      {(line) => (
        <div
          key={line.number}
          aria-current={line.number === current || undefined}
          className={cn(
            "min-h-[18px]",
            wrap ? "whitespace-pre-wrap break-all" : "whitespace-pre",
            LEVEL[line.level],
            line.number === current && "-mx-3 bg-accent-soft px-3",
          )}
        >
          {word === "" && !line.runs
            ? line.text
            : piecesOf(line, word).map((it, index) =>
                it.hit ? (
                  // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a line keep their places
                  <mark key={index} className="rounded-sm bg-warn-soft text-warn">
                    {it.text}
                  </mark>
                ) : it.color || it.bold ? (
                  // biome-ignore lint/suspicious/noArrayIndexKey: as above
                  <span key={index} className={cn(it.color && COLORS[it.color], it.bold && "font-semibold")}>
                    {it.text}
                  </span>
                ) : (
                  it.text
                ),
              )}
        </div>
      )}
    </VList>
  );
}
