import { ChevronRight } from "lucide-react";
import { useFormat } from "@/i18n";
import { useNow } from "@/kit/clock";
import { useT } from "../t";

function Ticking({ since }: { since: number }) {
  const t = useT();
  const format = useFormat();
  useNow();
  return t.turn.thinking(format.duration(Math.max(0, Math.floor((performance.now() - since) / 1000) * 1000)));
}

type ReasoningProps = {
  text: string;
  /** How long it took; `undefined` if nobody measured. */
  ms?: number;
  /** It is still being written, since this time. */
  since?: number | null;
};

/** What a model thought before its answer, folded. */
export function Reasoning({ text, ms, since }: ReasoningProps) {
  const t = useT();
  const format = useFormat();
  return (
    <details className="group/think rounded-md border border-line bg-hover">
      <summary className="flex h-8 list-none items-center gap-1.5 rounded-md px-2 text-ink-2 text-sm hover:text-ink">
        <ChevronRight aria-hidden className="size-4 group-open/think:rotate-90" />
        {since !== undefined && since !== null ? (
          <Ticking since={since} />
        ) : ms === undefined ? (
          t.turn.thought
        ) : (
          t.turn.thoughtFor(format.duration(ms))
        )}
      </summary>
      <p className="max-h-96 overflow-y-auto whitespace-pre-wrap break-words border-line border-t px-3 py-2 text-ink-2 text-sm">
        {text}
      </p>
    </details>
  );
}
