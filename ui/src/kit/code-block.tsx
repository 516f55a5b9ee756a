import { useState } from "react";
import { useT } from "@/i18n";
import { Segmented } from "./choices";
import { CopyButton } from "./copy";

export type Snippet = { id: string; label: string; code: string };

/** One line of a command with a button that copies it. */
export function Command({ code, label }: { code: string; label?: string }) {
  return (
    <div className="flex min-w-0 items-center gap-1 rounded-md border border-line bg-hover py-0.5 pr-0.5 pl-3">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <code tabIndex={0} className="min-w-0 flex-1 overflow-x-auto whitespace-pre font-mono text-xs">
        {code}
      </code>
      <CopyButton text={code} label={label} />
    </div>
  );
}

/** Code with a copy button; several snippets get a choice above them. */
export function CodeBlock({ snippets, label }: { snippets: Snippet[]; label?: string }) {
  const t = useT();
  const [id, setId] = useState(snippets[0]?.id ?? "");
  const shown = snippets.find((it) => it.id === id) ?? snippets[0];
  if (!shown) return null;
  return (
    <div className="relative min-w-0 overflow-hidden rounded-lg border border-line bg-hover">
      <div className="flex min-h-9 items-center gap-2 border-line border-b px-2 py-1">
        {snippets.length > 1 ? (
          // The copy button stays in sight beside a choice that is wider than the screen.
          // Where it goes on under the edge, it fades.
          <div className="relative flex min-w-0 overflow-x-auto after:sticky after:right-0 after:w-5 after:shrink-0 after:bg-linear-to-l after:from-hover [&>fieldset]:max-w-none [&>fieldset]:shrink-0">
            <Segmented
              label={label ?? t.word.name}
              value={shown.id}
              onValue={setId}
              options={snippets.map((it) => ({ value: it.id, label: it.label }))}
            />
          </div>
        ) : (
          <span className="px-1 text-ink-2 text-xs">{shown.label}</span>
        )}
        <span className="ml-auto">
          <CopyButton text={shown.code} label={t.do.copyCode(shown.label)} />
        </span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0} className="max-h-96 overflow-auto p-3 font-mono text-xs leading-5 -outline-offset-2">
        <code>{shown.code}</code>
      </pre>
    </div>
  );
}
