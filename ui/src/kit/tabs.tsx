import { Tabs as Base } from "@base-ui/react/tabs";
import type { ReactNode } from "react";
import { useUrlState } from "./url-state";

export type Tab = { id: string; label: ReactNode; content: ReactNode };

type TabsProps = {
  tabs: Tab[];
  label: string;
  /** The word in the address that says which is open. */
  param?: string;
};

/** Tabs whose choice stands in the address, so that a link opens the same one. */
export function Tabs({ tabs, label, param = "tab" }: TabsProps) {
  const [open, setOpen] = useUrlState(param, tabs[0]?.id);
  const value = tabs.some((it) => it.id === open) ? open : tabs[0]?.id;
  return (
    <Base.Root value={value} onValueChange={(to) => setOpen(String(to))}>
      <Base.List
        aria-label={label}
        className="flex gap-4 overflow-x-auto border-line border-b"
        activateOnFocus
      >
        {tabs.map((tab) => (
          <Base.Tab
            key={tab.id}
            value={tab.id}
            className="-mb-px h-10 whitespace-nowrap border-transparent border-b-2 px-1 text-ink-2 text-sm -outline-offset-2 hover:text-ink data-active:border-accent data-active:font-medium data-active:text-ink"
          >
            {tab.label}
          </Base.Tab>
        ))}
      </Base.List>
      {tabs.map((tab) => (
        <Base.Panel key={tab.id} value={tab.id} className="pt-4 outline-none" tabIndex={-1}>
          {tab.content}
        </Base.Panel>
      ))}
    </Base.Root>
  );
}
