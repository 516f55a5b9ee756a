import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { Command } from "./code-block";

type EmptyStateProps = {
  icon?: LucideIcon;
  /** What will be here, in one sentence. */
  title: string;
  children?: ReactNode;
  /** One primary action. */
  action?: ReactNode;
  /** A command that does the same. */
  command?: string;
};

/** Stands where there is nothing yet, and says how there comes to be something. */
export function EmptyState({ icon: Icon, title, children, action, command }: EmptyStateProps) {
  return (
    <div className="mx-auto flex max-w-xl flex-col items-center gap-3 px-4 py-10 text-center">
      {Icon && <Icon aria-hidden className="size-6 text-ink-3" />}
      <p className="max-w-md text-balance font-medium">{title}</p>
      {children && <div className="max-w-md text-balance text-ink-2 text-sm">{children}</div>}
      {action}
      {command && (
        <div className="max-w-full text-left">
          <Command code={command} />
        </div>
      )}
    </div>
  );
}
