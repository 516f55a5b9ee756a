import type { ReactNode } from "react";
import { useT } from "@/i18n";

export type Bar = {
  id: string;
  label: ReactNode;
  value: number /** The value as text; its unit belongs to it. */;
  text: string;
  onSelect?: () => void;
};

/** Values beside each other, largest first as they are given: who used most. A bar can be clicked to filter by it. */
export function BarList({ bars, label, max }: { bars: Bar[]; label: string; max?: number }) {
  const t = useT();
  if (bars.length === 0) return <p className="py-6 text-center text-ink-3 text-sm">{t.chart.none}</p>;
  const top = max ?? Math.max(1, ...bars.map((it) => it.value));
  return (
    <ul aria-label={label} className="flex flex-col gap-1">
      {bars.map((bar) => {
        const inside = (
          <>
            <span
              className="absolute inset-y-0 left-0 rounded-sm bg-accent-soft transition-[width] duration-150"
              style={{ width: `${Math.max(0.5, (bar.value / top) * 100)}%` }}
            />
            <span className="relative min-w-0 flex-1 truncate text-left">{bar.label}</span>
            <span className="relative whitespace-nowrap text-ink-2">{bar.text}</span>
          </>
        );
        const style = "relative flex h-8 w-full items-center gap-3 px-2 text-sm";
        return (
          <li key={bar.id}>
            {bar.onSelect ? (
              <button type="button" onClick={bar.onSelect} className={`${style} rounded-sm hover:bg-hover`}>
                {inside}
              </button>
            ) : (
              <div className={style}>{inside}</div>
            )}
          </li>
        );
      })}
    </ul>
  );
}
