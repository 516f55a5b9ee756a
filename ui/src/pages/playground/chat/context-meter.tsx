import { useFormat } from "@/i18n";
import { Progress } from "@/kit/bars";
import { useT } from "../t";
import type { Turn } from "./tree";

/** About how many tokens a text has: nobody here knows the model's own. */
const guess = (text: string): number => Math.ceil(text.length / 4);

/** How many tokens the conversation has: counted up to the last answer, guessed for what has no count. */
export function tokensOf(turns: Turn[]): { tokens: number; exact: boolean } {
  for (let at = turns.length - 1; at >= 0; at -= 1) {
    const { prompt_tokens, completion_tokens, estimated } = turns[at]?.facts ?? {};
    if (prompt_tokens === undefined || completion_tokens === undefined) continue;
    const after = turns.slice(at + 1).reduce((sum, it) => sum + guess(it.content), 0);
    return { tokens: prompt_tokens + completion_tokens + after, exact: after === 0 && !estimated };
  }
  const tokens = turns.reduce((sum, it) => sum + guess(it.content), 0);
  return { tokens, exact: tokens === 0 };
}

/** How much of the model's context the conversation fills. */
export function ContextMeter({ turns, context }: { turns: Turn[]; context: number | null | undefined }) {
  const t = useT();
  const format = useFormat();
  const { tokens, exact } = tokensOf(turns);
  const about = exact ? "" : "~";
  const used = `${about}${format.compact(tokens)}`;
  const text = context ? t.context.of(used, format.compact(context)) : t.context.only(used);
  const full = context ? tokens > context : false;
  return (
    <div className="w-36" title={full ? t.context.full : undefined}>
      <div className="mb-0.5 flex justify-between gap-2 text-ink-2 text-xs">
        <span>{t.context.label}</span>
        <span className={full ? "text-bad" : ""}>{text}</span>
      </div>
      {context && (
        <Progress thin label={t.context.label} value={tokens / context} tone={full ? "bad" : "accent"} />
      )}
    </div>
  );
}
