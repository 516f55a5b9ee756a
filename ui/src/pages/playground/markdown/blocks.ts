import { Lexer, type MarkedOptions, type Token } from "marked";
import { closeMarks } from "./close-marks";
import { countFormulas, MOST_FORMULAS, optionsFor } from "./formulas";

/** Reads a text as one token without marks. */
const plain = (text: string): Token => ({ type: "text", raw: text, text });

const lexOrFail = (text: string, options: MarkedOptions): Token[] => new Lexer(options).lex(text);

/**
 * Reads blocks. The lexer calls itself for each level of nesting, so a line of thousands of `>` or `[` is too much for it: only
 * the paragraph with that line is shown without marks. `most` formulas are read as such.
 */
function lex(text: string, growing: boolean, most: number): Token[] {
  const options = optionsFor(text, growing, most);
  try {
    return lexOrFail(text, options);
  } catch {
    return text.split(/(\n{2,})/).flatMap((part): Token[] => {
      if (!part) return [];
      if (/^\n+$/.test(part)) return [{ type: "space", raw: part }];
      try {
        return lexOrFail(part, options);
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
  #doneFormulas = 0;

  /** Takes the whole text so far. `growing`: more may come, and marks that are still open are shown as if closed. */
  read(given: string, growing: boolean): Token[] {
    const text = withPlainLines(given);
    if (!text.startsWith(this.#text.slice(0, this.#doneLength))) {
      this.#done = [];
      this.#doneLength = 0;
      this.#doneFormulas = 0;
    }
    this.#text = text;
    const tail = text.slice(this.#doneLength);
    const tokens = this.#lex(tail, growing);
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]?.type === "space") last -= 1;
    // A formula right below a paragraph is a part of it if more text comes in its line.
    if (tokens[last - 1]?.type === "paragraph" && ["formula", "text"].includes(tokens[last]?.type ?? ""))
      last -= 1;
    const settled = tokens.slice(0, Math.max(0, last));
    const length = settled.reduce((sum, it) => sum + it.raw.length, 0);
    const rest = tokens.slice(settled.length);
    const whole = rest.reduce((sum, it) => sum + it.raw.length, length) === tail.length;
    if (!whole) return [...this.#done, ...tokens];
    if (settled.length > 0) this.#done = [...this.#done, ...settled];
    this.#doneFormulas += countFormulas(settled);
    this.#doneLength += length;
    if (!growing) return [...this.#done, ...rest];
    const open = tail.slice(length);
    const closed = closeMarks(open);
    return [...this.#done, ...(closed === open ? rest : this.#lex(closed, growing))];
  }

  #lex(text: string, growing: boolean): Token[] {
    return lex(text, growing, MOST_FORMULAS - this.#doneFormulas);
  }
}
