import { memo, useRef } from "react";
import { Block } from "./block";
import { Blocks } from "./blocks";

const MemoBlock = memo(
  Block,
  // Tokens of the same text are the same; one that is still being written is drawn anew.
  (a, b) =>
    a.open === b.open &&
    (a.token === b.token || (a.token.type === b.token.type && a.token.raw === b.token.raw)),
);

/**
 * Shows markdown as elements; nothing of it is ever used as HTML. `growing`: more text comes, so the last block is not
 * finished.
 */
export const Markdown = memo(function Markdown({
  text,
  growing = false,
}: {
  text: string;
  growing?: boolean;
}) {
  const blocks = useRef<Blocks>(null);
  blocks.current ??= new Blocks();
  const tokens = blocks.current.read(text, growing);
  return (
    <div className="flex min-w-0 flex-col gap-3 break-words leading-6">
      {tokens.map((token, index) =>
        token.type === "space" || token.type === "def" ? null : (
          // biome-ignore lint/suspicious/noArrayIndexKey: blocks are only ever added at the end
          <MemoBlock key={index} token={token} open={growing && index === tokens.length - 1} />
        ),
      )}
    </div>
  );
});
