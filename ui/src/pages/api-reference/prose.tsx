import { Fragment } from "react";

/** A description of the document: paragraphs, and names in backquotes. Nothing else of Markdown is in it. */
export function Prose({ text, className }: { text: string | undefined; className?: string }) {
  if (!text) return null;
  return (
    <div className={className}>
      {text.split(/\n\n+/).map((paragraph, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a description keeps its paragraphs
        <p key={index} className="mt-2 max-w-[72ch] break-words first:mt-0">
          {paragraph.split("`").map((part, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: and their parts
            <Fragment key={at}>
              {at % 2 === 1 ? (
                <code className="break-all rounded-sm bg-hover px-1 font-mono text-xs">{part}</code>
              ) : (
                part
              )}
            </Fragment>
          ))}
        </p>
      ))}
    </div>
  );
}
