import { Wrench } from "lucide-react";
import { CopyButton } from "@/kit/copy";
import { useT } from "../t";
import type { ToolCall } from "./tree";

/** Arguments are JSON if the model keeps to it; else they are shown as they came. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The functions that the model wants to have called. Nothing is called here. */
export function ToolCalls({ calls }: { calls: ToolCall[] }) {
  const t = useT();
  return calls.map((call, at) => (
    <section
      // biome-ignore lint/suspicious/noArrayIndexKey: calls keep their places
      key={at}
      aria-label={t.turn.toolCall(call.name)}
      className="rounded-lg border border-line bg-panel"
    >
      <div className="flex h-8 items-center gap-2 border-line border-b bg-hover pr-0.5 pl-3 text-sm">
        <Wrench aria-hidden className="size-4 text-ink-3" />
        <span className="min-w-0 flex-1 truncate">{t.turn.toolCall(call.name)}</span>
        <CopyButton text={call.arguments} label={t.turn.copyArguments} />
      </div>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        className="overflow-x-auto p-3 font-mono text-xs leading-5 -outline-offset-2"
      >
        {pretty(call.arguments)}
      </pre>
    </section>
  ));
}
