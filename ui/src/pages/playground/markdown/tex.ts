import temml from "temml";

/** A formula that is drawn, or the library's words on what is wrong with it; neither if it is too much for a page. */
export type Drawn = { node?: Element; wrong?: string };

/** Deeper or larger trees are not put on the page: laying them out could end it. */
const DEEPEST = 120;
const MOST_ELEMENTS = 12_000;
/** Commands that make commands: a short formula could become an endless one. */
const DEFINES = /\\(?:[egx]?def|let|futurelet|global|(?:re)?newcommand|providecommand)(?![a-zA-Z])/;

function isTooMuch(root: Element): boolean {
  let level: Element[] = [root];
  let elements = 0;
  for (let depth = 0; level.length > 0; depth += 1) {
    elements += level.length;
    if (depth > DEEPEST || elements > MOST_ELEMENTS) return true;
    level = level.flatMap((it) => [...it.children]);
  }
  return false;
}

/** Makes MathML elements of TeX. No part of a formula is ever read as HTML; commands that need trust are errors. */
export function drawTex(tex: string, display: boolean): Drawn {
  if (DEFINES.test(tex)) return {};
  const node = document.createElement("span");
  try {
    temml.render(tex, node, {
      displayMode: display,
      throwOnError: true,
      trust: false,
      maxSize: [10, 150],
      maxExpand: 1000,
      // The library's own one writes a style attribute, which the content security policy refuses.
      macros: { "\\pmb": "\\boldsymbol" },
    });
  } catch (error) {
    if (error instanceof RangeError) return {};
    return { wrong: String(error instanceof Error ? error.message : error).trim() };
  }
  if (isTooMuch(node)) return {};
  // A rule has the colour of the text, whatever the theme. A label must not take an id of the page, nor a reference lead away.
  for (const it of node.querySelectorAll('[mathbackground="black"]'))
    it.setAttribute("mathbackground", "currentColor");
  for (const it of node.querySelectorAll("[id], [href]")) {
    it.removeAttribute("id");
    it.removeAttribute("href");
  }
  return { node };
}
