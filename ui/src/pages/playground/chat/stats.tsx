import { useFormat } from "@/i18n";
import { Tooltip } from "@/kit/tooltip";
import { useT } from "../t";
import type { Facts } from "./tree";

/** The figures below an answer: pace, TTFT, tokens, and why it ended. */
export function Stats({ facts }: { facts: Facts }) {
  const t = useT();
  const format = useFormat();
  const { tokens_per_second: pace, ttft_ms, completion_tokens, prompt_tokens, total_ms, ending } = facts;
  const about = facts.estimated ? "~" : "";
  const parts: [string, string][] = [];
  if (pace !== undefined) parts.push([`${about}${t.stats.pace(format.decimal(pace, 1))}`, t.stats.paceHelp]);
  if (ttft_ms !== undefined) parts.push([t.stats.ttft(format.duration(ttft_ms)), t.stats.ttftHelp]);
  if (completion_tokens !== undefined)
    parts.push([
      `${about}${t.stats.tokens(format.integer(completion_tokens), completion_tokens)}`,
      about ? t.stats.estimated : "",
    ]);
  if (prompt_tokens !== undefined)
    parts.push([t.stats.prompt(format.integer(prompt_tokens)), t.stats.promptHelp]);
  if (total_ms !== undefined) parts.push([format.duration(total_ms), t.stats.total]);
  if (ending && ending !== "interrupted" && ending !== "error")
    parts.push([t.ending[ending], t.endingHelp[ending]]);
  if (parts.length === 0) return null;
  return (
    <ul aria-label={t.stats.label} className="flex flex-wrap gap-x-3 text-ink-3 text-xs tabular-nums">
      {parts.map(([text, help]) => (
        <Tooltip key={text} text={help}>
          <li>{text}</li>
        </Tooltip>
      ))}
    </ul>
  );
}
