import { useMemo } from "react";
import { useFormat } from "@/i18n";
import { useT } from "../t";
import { cosine } from "./math";

/** How alike each two texts are. The colour says the same as the number. */
export function Matrix({ texts, vectors }: { texts: string[]; vectors: number[][] }) {
  const t = useT();
  const format = useFormat();
  const rows = useMemo(() => vectors.map((a) => vectors.map((b) => cosine(a, b))), [vectors]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="relative max-h-[32rem] overflow-auto" tabIndex={0}>
      <table className="border-separate border-spacing-0.5 text-sm">
        <caption className="sr-only">{t.vectors.similarity}</caption>
        <thead>
          <tr>
            <td />
            {texts.map((text, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the same text may be there twice
              <th key={at} scope="col" title={text} className="px-1 font-medium text-ink-2 text-xs">
                {at + 1}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the same text may be there twice
            <tr key={at}>
              <th scope="row" className="max-w-48 pr-2 text-left font-normal" title={texts[at]}>
                <span className="flex gap-2">
                  <span className="font-medium text-ink-2 text-xs leading-5">{at + 1}</span>
                  <span dir="auto" className="truncate">
                    {texts[at]}
                  </span>
                </span>
              </th>
              {row.map((value, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the same text may be there twice
                <td key={column} className="relative h-8 min-w-12 rounded-sm px-1 text-center tabular-nums">
                  <span
                    aria-hidden
                    className="absolute inset-0 rounded-sm bg-accent-soft"
                    style={{ opacity: Math.max(0, value ?? 0) }}
                  />
                  <span className="relative">{value === null ? "–" : format.decimal(value, 2)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
