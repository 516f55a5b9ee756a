import { cn } from "@/kit/cn";

/** A text of the gateway, in which words between backticks are code. It becomes a sentence, unless it is shown as it is. */
export function Prose({ text, className, asIs }: { text: string; className?: string; asIs?: boolean }) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  const sentence = asIs ? text : /[.:!?]$/.test(first) ? first : `${first}.`;
  return (
    <span className={cn("break-words", className)}>
      {sentence.split("`").map((part, index) =>
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
