import type { ClipboardEvent, ComponentProps, ReactNode } from "react";
import { useFormat, useT } from "@/i18n";
import type { Instant } from "@/i18n/format";
import { useMinute, useNow } from "./clock";
import { cn } from "./cn";
import { graphemes } from "./graphemes";
import { Tooltip } from "./tooltip";

type RelativeTimeProps = {
  at: Instant | null | undefined;
  className?: string;
  /** For the rows of a list: the browser shows the exact time, and it moves on by the minute. A hundred tooltips are slow. */
  inList?: boolean;
};

/** How long ago, or in how long; the exact time in the browser's zone shows on hover and on focus. */
export function RelativeTime({ at, className, inList }: RelativeTimeProps) {
  const t = useT();
  if (at === null || at === undefined) return <span className="text-ink-3">{t.word.never}</span>;
  return inList ? <ByMinute at={at} className={className} /> : <BySecond at={at} className={className} />;
}

type TimeProps = ComponentProps<"time"> & { at: Instant };

function ByMinute({ at, className }: TimeProps) {
  return <Time at={at} now={useMinute()} className={className} />;
}

function BySecond({ at, className }: TimeProps) {
  const format = useFormat();
  return (
    <Tooltip text={format.dateTime(at)}>
      <Time at={at} now={useNow()} className={className} />
    </Tooltip>
  );
}

function Time({ at, now, className, ...props }: TimeProps & { now: number }) {
  const format = useFormat();
  return (
    <time
      {...props}
      dateTime={new Date(at).toISOString()}
      title={format.dateTime(at)}
      className={cn("whitespace-nowrap", className)}
    >
      {format.relative(at, now)}
    </time>
  );
}

/** A long name on one line, cut in the middle where it does not fit; its end often says more than its middle. Full on hover. */
export function Middle({ text, end = 8, className }: { text: string; end?: number; className?: string }) {
  const letters = graphemes(text);
  // What is written from right to left must not change the order of what stands beside it.
  if (letters.length <= end + 4) return <bdi className={cn("whitespace-nowrap", className)}>{text}</bdi>;
  // Two boxes would be read, and copied, as two words.
  const copyWhole = (event: ClipboardEvent) => {
    event.preventDefault();
    event.clipboardData.setData("text/plain", text);
  };
  return (
    <bdi
      className={cn("inline-flex min-w-0 max-w-full whitespace-pre", className)}
      title={text}
      onCopy={copyWhole}
    >
      <span className="sr-only select-none">{text}</span>
      <span aria-hidden className="overflow-hidden text-ellipsis">
        {letters.slice(0, -end).join("")}
      </span>
      <span aria-hidden>{letters.slice(-end).join("")}</span>
    </bdi>
  );
}

/** A key of the keyboard. */
export function Kbd({ children }: { children: ReactNode }) {
  return (
    <kbd className="inline-grid h-5 min-w-5 place-items-center rounded-sm border border-line bg-hover px-1 font-sans text-ink-2 text-xs">
      {children}
    </kbd>
  );
}

type FactProps = { label: ReactNode; value: ReactNode; note?: ReactNode; children?: ReactNode };

/** What is cut off shows on hover. */
const titleOf = (shown: ReactNode) => (typeof shown === "string" ? shown : undefined);

/** One number with its name: the figures at the top of a page. */
export function Fact({ label, value, note, children }: FactProps) {
  return (
    <div className="flex min-w-0 flex-col gap-0.5">
      <div className="truncate text-ink-2 text-sm" title={titleOf(label)}>
        {label}
      </div>
      <div className="truncate font-semibold text-xl tabular-nums">{value}</div>
      {note && <div className="break-words text-ink-3 text-xs">{note}</div>}
      {children}
    </div>
  );
}
