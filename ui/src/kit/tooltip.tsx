import { Tooltip as Base } from "@base-ui/react/tooltip";
import type { ReactElement, ReactNode } from "react";

/** Says more about what the pointer or the focus is on. What it says must not be needed: touch screens don't show it. */
export function Tooltip({
  text,
  keys,
  children,
}: {
  text: ReactNode;
  keys?: ReactNode;
  children: ReactElement;
}) {
  if (!text) return children;
  return (
    <Base.Root>
      <Base.Trigger render={children} delay={400} />
      <Base.Portal>
        <Base.Positioner sideOffset={6} className="z-50">
          <Base.Popup className="max-w-80 rounded-md border border-line bg-raised px-2 py-1 text-xs text-ink shadow-float transition-opacity duration-100 data-ending-style:opacity-0 data-starting-style:opacity-0">
            {text}
            {keys && <span className="ml-2 text-ink-3">{keys}</span>}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
