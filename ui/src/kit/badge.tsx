import { cva } from "class-variance-authority";
import type { ReactNode } from "react";
import { type Dictionary, useT } from "@/i18n";
import { cn } from "./cn";

/** The five kinds of states; each has a colour and a shape. */
export type Tone = "ok" | "busy" | "warn" | "bad" | "idle";
export type StateWord = keyof Dictionary["state"];

const TONES: Record<StateWord, Tone> = {
  stopped: "idle",
  starting: "busy",
  loading: "busy",
  running: "ok",
  stopping: "busy",
  failed: "bad",
  healthy: "ok",
  unhealthy: "bad",
  active: "ok",
  disabled: "idle",
  expired: "warn",
  revoked: "idle",
  completed: "ok",
  cancelled: "idle",
  queued: "idle",
  ok: "ok",
  warning: "warn",
  error: "bad",
  unknown: "idle",
};

const style = cva(
  "inline-flex items-center gap-1.5 align-middle whitespace-nowrap rounded-full font-medium",
  {
    variants: {
      tone: {
        ok: "bg-ok-soft text-ok",
        busy: "bg-busy-soft text-busy",
        warn: "bg-warn-soft text-warn",
        bad: "bg-bad-soft text-bad",
        idle: "bg-idle-soft text-idle",
      },
      size: { sm: "h-5 px-2 text-xs", md: "h-6 px-2.5 text-xs" },
    },
    defaultVariants: { tone: "idle", size: "sm" },
  },
);

/** The shape of a state: a filled dot is good, a turning half ring is busy, triangles want attention, a ring is idle. */
export function StateShape({ tone, className }: { tone: Tone; className?: string }) {
  const shapes: Record<Tone, ReactNode> = {
    ok: <circle cx="6" cy="6" r="4" fill="currentColor" />,
    busy: (
      <>
        <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="2" opacity="0.3" />
        <path d="M6 2a4 4 0 0 1 4 4" fill="none" stroke="currentColor" strokeWidth="2" />
      </>
    ),
    warn: (
      <path d="M6 2 11 10.5H1Z" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinejoin="round" />
    ),
    bad: <path d="M6 1.5 11.2 10.6H.8Z" fill="currentColor" />,
    idle: <circle cx="6" cy="6" r="3.4" fill="none" stroke="currentColor" strokeWidth="1.6" />,
  };
  return (
    <svg
      viewBox="0 0 12 12"
      aria-hidden="true"
      className={cn("size-3 shrink-0", tone === "busy" && "animate-turn", className)}
    >
      {shapes[tone]}
    </svg>
  );
}

type BadgeProps = { children: ReactNode; tone?: Tone; size?: "sm" | "md"; className?: string };

/** A short word beside a name. */
export function Badge({ children, tone, size, className }: BadgeProps) {
  return <span className={cn(style({ tone, size }), className)}>{children}</span>;
}

/** A state: its shape, its word and its colour. `children` replaces the word, to say more ("Loading 42 %"). */
export function StateBadge({
  state,
  children,
  size,
}: {
  state: StateWord;
  children?: ReactNode;
  size?: "sm" | "md";
}) {
  const t = useT();
  const tone = TONES[state];
  return (
    <span className={style({ tone, size })}>
      <StateShape tone={tone} />
      {children ?? t.state[state]}
    </span>
  );
}
