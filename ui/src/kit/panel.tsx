import type { ReactNode } from "react";
import { cn } from "./cn";

type PanelProps = {
  title?: ReactNode;
  /** Stands behind the title, in a lighter colour. */
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** Without space around its content, for tables. */
  flush?: boolean;
  className?: string;
};

/** A part of a page, with a border and a title. */
export function Panel({ title, note, actions, children, flush, className }: PanelProps) {
  return (
    <section
      className={cn("min-w-0 rounded-lg border border-line bg-panel [--surface:var(--panel)]", className)}
    >
      {(title || actions) && (
        <header className="flex min-h-11 flex-wrap items-center gap-x-3 gap-y-1 border-line border-b px-4 py-1.5">
          <h2 className="font-semibold text-sm">{title}</h2>
          {note && <div className="text-ink-3 text-sm">{note}</div>}
          {actions && <div className="ml-auto flex items-center gap-1">{actions}</div>}
        </header>
      )}
      <div className={flush ? "" : "p-4"}>{children}</div>
    </section>
  );
}
