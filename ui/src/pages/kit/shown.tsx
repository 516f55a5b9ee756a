import type { ReactNode } from "react";
import { Panel } from "@/kit/panel";

/** One group of the gallery. */
export function Shown({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Panel title={title}>
      <div className="flex flex-wrap items-start gap-4">{children}</div>
    </Panel>
  );
}

/** The page of a tab. */
export function Gallery({ children }: { children: ReactNode }) {
  return <div className="flex flex-col gap-4">{children}</div>;
}
