import type { ReactNode } from "react";
import type { Tone } from "./badge";
import { cn } from "./cn";

const FILL: Record<Tone | "accent", string> = {
  accent: "bg-accent",
  ok: "bg-ok-solid",
  busy: "bg-busy-solid",
  warn: "bg-warn-solid",
  bad: "bg-bad-solid",
  idle: "bg-idle-solid",
};

type ProgressProps = {
  /** From 0 to 1; `null`: nobody knows how far it is. */
  value: number | null;
  label: string;
  /** What is shown behind the label, as in "3.1 of 8 GiB". */
  text?: ReactNode;
  tone?: Tone | "accent";
  thin?: boolean;
};

const share = (value: number) => `${Math.min(100, Math.max(0, value * 100))}%`;

/** How far work is. */
export function Progress({ value, label, text, tone = "accent", thin }: ProgressProps) {
  return (
    <div className="min-w-0">
      {text !== undefined && (
        <div className="mb-1 flex justify-between gap-3 text-sm">
          <span className="truncate">{label}</span>
          <span className="whitespace-nowrap text-ink-2">{text}</span>
        </div>
      )}
      <div
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={value === null ? undefined : Math.round(value * 100)}
        className={cn("w-full overflow-hidden rounded-full bg-idle-soft", thin ? "h-1" : "h-2")}
      >
        <div
          className={cn(
            "h-full rounded-full",
            FILL[tone],
            value === null ? "w-2/5 animate-pulse" : "transition-[width] duration-150",
          )}
          style={value === null ? undefined : { width: share(value) }}
        />
      </div>
    </div>
  );
}

type MeterProps = {
  /** From 0 to 1; `null`: it is not known. */
  value: number | null;
  label: ReactNode;
  /** The name for screen readers, where `label` is more than a text. */
  name?: string;
  text: ReactNode;
  /** From these shares on it is shown as a warning, and as bad. */
  warnAt?: number;
  badAt?: number;
};

/** How full something is: memory, a disk, a budget. */
export function Meter({ value, label, name, text, warnAt = 0.85, badAt = 0.95 }: MeterProps) {
  const tone = value === null ? "idle" : value >= badAt ? "bad" : value >= warnAt ? "warn" : "accent";
  return (
    <div className="min-w-0">
      <div className="mb-1 flex justify-between gap-3 text-sm">
        <span className="min-w-0 truncate">{label}</span>
        <span className="whitespace-nowrap text-ink-2">{text}</span>
      </div>
      <div
        role="meter"
        aria-label={name ?? (typeof label === "string" ? label : undefined)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round((value ?? 0) * 100)}
        className="h-2 w-full overflow-hidden rounded-full bg-idle-soft"
      >
        {value !== null && (
          <div
            className={cn("h-full rounded-full transition-[width] duration-150", FILL[tone])}
            style={{ width: share(value) }}
          />
        )}
      </div>
    </div>
  );
}
