import { memo, useEffect, useMemo, useState } from "react";
import { fetchPart } from "@/api/part";
import { cn } from "@/kit/cn";
import { CopyButton } from "@/kit/copy";
import { useT } from "../t";
import type { Run } from "./highlight";

/** Lines that are drawn together: those above the last ones stay as they are while code is written. */
const GROUP = 40;
/** Longer code stays without colours. */
const LONGEST = 60_000;

/** Divides text into pieces of some lines each, without the line break at the end of a piece. */
export function groupsOf(text: string, size = GROUP): string[] {
  const groups: string[] = [];
  let from = 0;
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) {
    lines += 1;
    if (lines % size !== 0) continue;
    groups.push(text.slice(from, at));
    from = at + 1;
  }
  groups.push(text.slice(from));
  return groups;
}

const Plain = memo(({ text }: { text: string }) => <span className="block min-h-5">{text}</span>);

/** Colours come when the code is complete and the highlighter is here. */
function useHighlighted(text: string, language: string, open: boolean): Run[] | undefined {
  const [runs, setRuns] = useState<{ text: string; runs: Run[] | undefined }>();
  useEffect(() => {
    if (open || !language || text.length > LONGEST) return;
    let current = true;
    fetchPart(() => import("./highlight")).then(
      ({ highlight }) => current && setRuns({ text, runs: highlight(text, language) }),
      () => {
        // Code without colours is code, too. The next block tries again.
      },
    );
    return () => {
      current = false;
    };
  }, [text, language, open]);
  return runs?.text === text ? runs.runs : undefined;
}

/** Code with its language, a button that copies it, and colours once it is complete. */
export function Code({ text, language, open }: { text: string; language: string; open: boolean }) {
  const t = useT();
  const word = language.split(/\s/)[0] ?? "";
  const runs = useHighlighted(text, word, open);
  const groups = useMemo(() => groupsOf(text), [text]);
  return (
    <div className="min-w-0 overflow-hidden rounded-lg border border-line bg-panel">
      <div className="flex h-8 items-center justify-between border-line border-b bg-hover pr-0.5 pl-3 text-ink-2 text-xs">
        <span className="truncate">{word || t.markdown.code}</span>
        <CopyButton text={text} label={t.markdown.copyCode} />
      </div>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        className="overflow-x-auto p-3 font-mono text-xs leading-5 -outline-offset-2"
      >
        <code>
          {runs
            ? runs.map((run, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
                <span key={index} className={cn(run.style)}>
                  {run.text}
                </span>
              ))
            : // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
              groups.map((group, index) => <Plain key={index} text={group} />)}
        </code>
      </pre>
    </div>
  );
}
