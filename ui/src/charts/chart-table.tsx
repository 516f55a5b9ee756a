import type { ReactNode } from "react";
import { useT } from "@/i18n";

/** The same numbers as a table, for screen readers, and for people who open it. */
export function ChartTable({ label, head, rows }: { label: string; head: string[]; rows: ReactNode[][] }) {
  const t = useT();
  return (
    <details className="mt-2 text-xs">
      <summary className="inline-block rounded-sm text-ink-3 hover:text-ink">{t.table.asTable}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div className="mt-1 max-h-64 overflow-auto" tabIndex={0} role="region" aria-label={label}>
        <table className="w-full border-separate border-spacing-0">
          <caption className="sr-only">{label}</caption>
          <thead>
            <tr>
              {head.map((word) => (
                <th
                  key={word}
                  scope="col"
                  className="border-line border-b px-2 py-1 text-left font-medium text-ink-2"
                >
                  {word}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rows of a chart have no other identity
              <tr key={index}>
                {row.map((cell, column) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: nor have its columns
                  <td key={column} className="whitespace-nowrap border-line border-b px-2 py-1 text-ink-2">
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
