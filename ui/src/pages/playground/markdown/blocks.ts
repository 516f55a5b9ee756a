import { Lexer, type Token } from "marked";
import { closeMarks } from "./close-marks";

/** Reads a text as one token without marks. */
const plain = (text: string): Token => ({ type: "text", raw: text, text });

const lexOrFail = (text: string): Token[] => new Lexer({ gfm: true }).lex(text);

/**
 * Reads blocks. The lexer calls itself for each level of nesting, so a line of thousands of `>` or `[` is too much for it: only
 * the paragraph with that line is shown without marks.
 */
function lex(text: string): Token[] {
  try {
    return lexOrFail(text);
  } catch {
    return text.split(/(\n{2,})/).flatMap((part): Token[] => {
      if (!part) return [];
      if (/^\n+$/.test(part)) return [{ type: "space", raw: part }];
      try {
        return lexOrFail(part);
      } catch {
        return [plain(part)];
      }
    });
  }
}

/** Line ends as the lexer wants them, so that the lengths of its tokens are those of the text. */
export const withPlainLines = (text: string): string => text.replace(/\r\n?/g, "\n");

/**
 * Divides a text that grows into blocks. Only the last block can still change, so only that one is read again; all others
 * stay the same objects, and what is drawn of them stays, too.
 */
export class Blocks {
  #text = "";
  #done: Token[] = [];
  #doneLength = 0;

  /** Takes the whole text so far. `growing`: more may come, and marks that are still open are shown as if closed. */
  read(given: string, growing: boolean): Token[] {
    const text = withPlainLines(given);
    if (!text.startsWith(this.#text.slice(0, this.#doneLength))) {
      this.#done = [];
      this.#doneLength = 0;
    }
    this.#text = text;
    const tail = text.slice(this.#doneLength);
    const tokens = lex(tail);
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]?.type === "space") last -= 1;
    const settled = tokens.slice(0, Math.max(0, last));
    const length = settled.reduce((sum, it) => sum + it.raw.length, 0);
    const rest = tokens.slice(settled.length);
    const whole = rest.reduce((sum, it) => sum + it.raw.length, length) === tail.length;
    if (!whole) return [...this.#done, ...tokens];
    if (settled.length > 0) this.#done = [...this.#done, ...settled];
    this.#doneLength += length;
    if (!growing) return [...this.#done, ...rest];
    const open = tail.slice(length);
    const closed = closeMarks(open);
    return [...this.#done, ...(closed === open ? rest : lex(closed))];
  }
}
