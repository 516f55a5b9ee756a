import { maskFormulas } from "./formulas";

/** The marks that come in pairs; longer ones first. */
const PAIRS = ["**", "__", "~~", "*", "_"];

/**
 * Closes what the last paragraph of a growing text has opened, so that it doesn't flash as raw marks: bold, italics, code,
 * links. Code blocks and tables need nothing: the lexer takes them as they are. A formula stays as it is, open or not.
 */
export function closeMarks(text: string): string {
  const from = text.lastIndexOf("\n\n") + 1;
  const last = text.slice(from);
  if (/^ {0,3}(```|~~~)/m.test(last) || last.length > 5000) return text;
  const ticks = last.match(/`+/g) ?? [];
  // What stands in open code is no mark.
  if (ticks.length % 2 === 1) {
    const open = ticks[ticks.length - 1] ?? "`";
    return last.endsWith(open) ? text.slice(0, -open.length) : text + open;
  }
  const { masked: bare, open: formula } = maskFormulas(
    last.replace(/(`+)[\s\S]*?\1/g, (code) => " ".repeat(code.length)),
  );
  if (formula >= 0) return closeMarks(text.slice(0, from + formula)) + text.slice(from + formula);
  // A link whose address is not complete shows its words only.
  const link = /!?\[([^\]\n]*)(\]\([^)\n]*)?$/.exec(bare);
  if (link) {
    const at = from + link.index;
    const words = text.slice(at + (link[0].startsWith("!") ? 2 : 1)).split("](")[0] ?? "";
    return closeMarks(text.slice(0, at) + words.replaceAll("[", ""));
  }
  // A list's own mark, and marks with space around them, open nothing.
  let left = bare.replace(/^\s*[*+-] /gm, "").replace(/(^|\s)[*_~]+(?=\s)/g, "$1");
  const open: { mark: string; at: number }[] = [];
  for (const mark of PAIRS) {
    const parts = left.split(mark);
    if (parts.length % 2 === 0) open.push({ mark, at: left.lastIndexOf(mark) });
    left = left.replaceAll(mark, "\0".repeat(mark.length));
  }
  let closed = text;
  // The innermost closes first. A mark with nothing behind it is left away until something comes.
  for (const { mark } of open.sort((a, b) => b.at - a.at)) {
    if (/[a-z0-9]_[a-z0-9]/i.test(bare) && mark.startsWith("_")) continue;
    closed = closed.endsWith(mark) ? closed.slice(0, -mark.length) : closed.trimEnd() + mark;
  }
  return closed;
}
