import { cn } from "@/kit/cn";
import { sentence } from "@/kit/sentence";

/** A text of the gateway, in which words between backticks are code. It becomes a sentence, unless it is shown as it is. */
export function Prose({ text, className, asIs }: { text: string; className?: string; asIs?: boolean }) {
  const whole = asIs ? text : sentence(text);
  return (
    <span className={cn("break-words", className)}>
      {whole.split("`").map((part, index) =>
        index % 2 === 1 ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text keep their places
          <code key={index} className="inline-block max-w-full font-mono text-[0.92em]">
            {part}
          </code>
        ) : (
          part
        ),
      )}
    </span>
  );
}
