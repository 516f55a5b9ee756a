import { Tabs as Base } from "@base-ui/react/tabs";
import { type ReactNode, useEffect, useRef } from "react";
import { useUrlState } from "./url-state";

export type Tab = {
  id: string;
  label: ReactNode;
  content: ReactNode;
  /** What one should know before leaving it, in a word: "changed". */
  mark?: string;
};

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
  const list = useRef<HTMLDivElement>(null);
  // Where not all tabs have room, the open one is in sight.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another tab is open
  useEffect(() => {
    const box = list.current;
    const tab = box?.querySelector<HTMLElement>('[aria-selected="true"]');
    if (!box || !tab) return;
    const watch = new ResizeObserver(() => {
      box.scrollLeft = tab.offsetLeft - (box.clientWidth - tab.offsetWidth) / 2;
    });
    watch.observe(box);
    return () => watch.disconnect();
  }, [value]);
  const before = useRef(value);
  // What was pressed in a tab to come to another one goes with it, or has gone already.
  useEffect(() => {
    const box = list.current;
    const active = document.activeElement;
    const lost = active === document.body || (box?.parentElement?.contains(active) && !box.contains(active));
    if (before.current !== value && lost) box?.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
    before.current = value;
  }, [value]);
  return (
    <Base.Root value={value} onValueChange={(to) => setOpen(String(to))}>
      <Base.List
        ref={list}
        aria-label={label}
        // The last pixels fade where tabs go on under the edge.
        className="relative flex overflow-x-auto border-line border-b after:sticky after:right-0 after:w-6 after:shrink-0 after:bg-linear-to-l after:from-(--surface,var(--bg)) sm:gap-4"
        activateOnFocus
      >
        {tabs.map((tab) => (
          <Base.Tab
            key={tab.id}
            value={tab.id}
            className="-mb-px h-10 whitespace-nowrap border-transparent border-b-2 px-1 text-ink-2 text-sm -outline-offset-2 hover:text-ink data-active:border-accent data-active:font-medium data-active:text-ink"
          >
            {tab.label}
            {tab.mark && (
              <span title={tab.mark} className="ml-1.5 inline-block size-2 rounded-full bg-warn-solid">
                <span className="sr-only"> ({tab.mark})</span>
              </span>
            )}
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
