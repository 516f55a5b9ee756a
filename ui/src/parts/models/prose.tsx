import { cn } from "@/kit/cn";

/** A text of the gateway, in which words between backticks are code. */
export function Prose({ text, className }: { text: string; className?: string }) {
  return (
    <span className={cn("break-words", className)}>
      {text.split("`").map((part, index) =>
        index % 2 === 1 ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text keep their places
          <code key={index} className="font-mono text-[0.92em]">
            {part}
          </code>
        ) : (
          part
        ),
      )}
    </span>
  );
}
