import { Lexer, type Token } from "marked";
import { closeMarks } from "./close-marks";

const lex = (text: string): Token[] => new Lexer({ gfm: true }).lex(text);

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
