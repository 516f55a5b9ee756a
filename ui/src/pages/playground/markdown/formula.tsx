import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { fetchPart } from "@/api/part";
import { cn } from "@/kit/cn";
import { useT } from "../t";

type Library = typeof import("./tex");
let library: Library | undefined;

/** A formula in a line with a longer source gets a box that scrolls. */
const SHORT = 40;
const SCROLLS = "max-w-full overflow-x-auto overflow-y-hidden -outline-offset-2";

/** What draws formulas: it comes with the first one that is shown. */
function useLibrary(): Library | undefined {
  const [here, setHere] = useState(library);
  useEffect(() => {
    if (here) return;
    let current = true;
    fetchPart(() => import("./tex")).then(
      (it) => {
        library = it;
        if (current) setHere(it);
      },
      () => {
        // A formula is shown as its source, too. The next one tries again.
      },
    );
    return () => {
      current = false;
    };
  }, [here]);
  return here;
}

/** A formula; its source where it cannot be drawn, with the reason, and until the library is here. */
export function Formula({ tex, display }: { tex: string; display: boolean }) {
  const t = useT();
  const draw = useLibrary();
  const drawn = useMemo(() => draw?.drawTex(tex, display), [draw, tex, display]);
  const place = useRef<HTMLSpanElement>(null);
  const node = drawn?.node;
  useLayoutEffect(() => {
    if (node) place.current?.replaceChildren(node);
  }, [node]);
  if (!node) {
    const reason = drawn && (drawn.wrong ? t.markdown.wrongFormula(drawn.wrong) : t.markdown.largeFormula);
    return (
      <code
        title={reason}
        className={cn(
          "rounded-sm bg-idle-soft px-1 py-px font-mono text-sm [overflow-wrap:anywhere]",
          display && "block whitespace-pre-wrap",
        )}
      >
        {tex}
      </code>
    );
  }
  if (display)
    return (
      <span
        ref={place}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        className={cn(SCROLLS, "block py-1 [&_math]:w-max [&_math]:min-w-full")}
      />
    );
  if (tex.length > SHORT)
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      <span ref={place} tabIndex={0} className={cn(SCROLLS, "inline-block align-middle")} />
    );
  // Nothing of it may be drawn over what stands around it.
  return <span ref={place} className="inline-block max-w-full overflow-clip [overflow-clip-margin:3px]" />;
}
