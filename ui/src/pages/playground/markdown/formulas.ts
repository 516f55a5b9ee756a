import { Hooks, type MarkedOptions, type Token, type TokenizerExtensionFunction, type Tokens } from "marked";

/** A formula of an answer. `display`: it stands on lines of its own. */
export type FormulaToken = { type: "formula"; raw: string; text: string; display: boolean };
export const isFormula = (token: Token): token is FormulaToken => token.type === "formula";

/** A longer formula is text, as it was written. */
export const LONGEST_FORMULA = 4000;
/** Further formulas of an answer are text. */
export const MOST_FORMULAS = 1000;

/** What begins a formula, and what ends it; longer ones first. */
const PAIRS = [
  ["$$", "$$"],
  ["\\[", "\\]"],
  ["\\(", "\\)"],
  ["$", "$"],
] as const;
const BLANK_LINE = /\n[ \t]*\n/y;
const REST_OF_LINE = /[ \t]*(?=\n|$)/y;

type Found = { end: number; tex: string; display: boolean };

/**
 * The formula that begins at `at`; "open" if the text ends before it does. `before` is the character in front of it. Prices are
 * no formulas: `$` begins one only in front of a character, and ends one only behind a character and not in front of a digit.
 * The search ends at the next `$` or `\(`, so that many marks take no longer than their text.
 */
export function formulaAt(text: string, at: number, before: string): Found | "open" | undefined {
  const pair = PAIRS.find(([opening]) => text.startsWith(opening, at));
  if (!pair) return undefined;
  const [opening, closing] = pair;
  const from = at + opening.length;
  if (opening.startsWith("$") && /[A-Za-z0-9\\$]/.test(before)) return undefined;
  if (opening === "$" && !/\S/.test(text[from] ?? "")) return undefined;
  let to = from;
  for (; to < text.length; to += 1) {
    const char = text[to];
    const next = text[to + 1];
    if (to - from > LONGEST_FORMULA || char === "`") return undefined;
    if (char === "\n") {
      BLANK_LINE.lastIndex = to;
      if (opening === "$" || BLANK_LINE.test(text)) return undefined;
    } else if (char === "\\") {
      if (text.startsWith(closing, to)) break;
      if (opening.startsWith("\\") && (next === "(" || next === "[")) return undefined;
      if (next !== "\n") to += 1;
    } else if (char === "$" && opening === "$$") {
      if (next === undefined) return "open";
      if (next !== "$") return undefined;
      break;
    } else if (char === "$" && opening === "$") {
      if (/\s/.test(text[to - 1] ?? "") || /[\d$]/.test(next ?? "")) return undefined;
      break;
    }
  }
  if (to >= text.length) return "open";
  const tex = text.slice(from, to).trim();
  if (!tex) return undefined;
  return { end: to + closing.length, tex, display: opening === "$$" || opening === "\\[" };
}

/** The formula that begins at `at` and has its lines for itself; "open" only while the text is `growing`. */
function blockAt(text: string, at: number, growing: boolean): Found | "open" | undefined {
  const found = formulaAt(text, at, "");
  if (found === "open") return growing ? found : undefined;
  if (!found) return undefined;
  REST_OF_LINE.lastIndex = found.end;
  const rest = REST_OF_LINE.exec(text);
  return rest ? { ...found, end: found.end + rest[0].length } : undefined;
}

/** Replaces what stands in formulas by letters. `open`: where a formula begins that is not complete, or -1. */
export function maskFormulas(text: string): { masked: string; open: number } {
  let masked = "";
  let from = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] !== "$" && text[at] !== "\\") continue;
    const found = formulaAt(text, at, text[at - 1] ?? "");
    // An open `$` in front of a digit is most likely a price.
    if (found === "open" && !/^\$\d/.test(text.slice(at, at + 2)))
      return { masked: masked + text.slice(from), open: at };
    if (found && found !== "open") {
      masked += text.slice(from, at) + "x".repeat(found.end - at);
      from = found.end;
      at = found.end - 1;
    } else if (text[at] === "\\") at += 1;
  }
  return { masked: masked + text.slice(from), open: -1 };
}

class FormulaHooks extends Hooks {
  override emStrongMask(text: string): string {
    return maskFormulas(text).masked;
  }
}

const FENCE = /^ {0,3}(`{3,}|~{3,}) *math *\n([\s\S]*?)\n {0,3}\1[`~]* *(?=\n|$)/;

/**
 * Lets the lexer find formulas, `most` of them. `growing`: more text comes, so a formula at its end that is not complete keeps
 * its lines: they are no lists, and become no blocks that are complete.
 */
function withFormulas(growing: boolean, most: number): MarkedOptions {
  let left = most;
  const formula = (raw: string, tex: string, display: boolean): FormulaToken => {
    left -= 1;
    return { type: "formula", raw, text: tex, display };
  };
  const block: TokenizerExtensionFunction = (text) => {
    if (left <= 0) return undefined;
    const fence = FENCE.exec(text);
    const fenced = fence?.[2]?.trim();
    if (fence && fenced && fenced.length <= LONGEST_FORMULA) return formula(fence[0], fenced, true);
    const indent = /^ {0,3}(?=\$\$|\\\[)/.exec(text)?.[0].length;
    if (indent === undefined) return undefined;
    const found = blockAt(text, indent, growing);
    if (found === "open") {
      const line = { type: "text", raw: text, text };
      return { ...line, tokens: [line] };
    }
    return found && formula(text.slice(0, found.end), found.tex, true);
  };
  const inline: TokenizerExtensionFunction = (text, tokens) => {
    if (left <= 0 || (text[0] !== "$" && text[0] !== "\\")) return undefined;
    const found = formulaAt(text, 0, tokens.at(-1)?.raw.at(-1) ?? "");
    if (!found || found === "open") return undefined;
    return formula(text.slice(0, found.end), found.tex, found.display);
  };
  return {
    hooks: new FormulaHooks(),
    extensions: {
      renderers: {},
      childTokens: {},
      block: [block],
      inline: [inline],
      startBlock: [
        (text) => {
          if (left <= 0) return undefined;
          // Only as far as the paragraph goes: a search to the end for each one would take too long.
          for (const line of text.matchAll(/\n(?:[ \t]*(\n)| {0,3}(?=\$\$|\\\[))/g)) {
            if (line[1]) return undefined;
            if (blockAt(text, line.index + line[0].length, growing)) return line.index + 1;
          }
          return undefined;
        },
      ],
      startInline: [
        (text) => {
          // At all other marks the lexer's text ends by itself.
          const at = text.search(/[$\\<![`*~_]/);
          return text[at] === "$" ? at : undefined;
        },
      ],
    },
  };
}

/** What the lexer needs to read `text` with its formulas. */
export function optionsFor(text: string, growing: boolean, most: number): MarkedOptions {
  const some = /\$|\\[([]|(?:```|~~~) *math/.test(text);
  return { gfm: true, ...(some && withFormulas(growing, most)) };
}

/** How many formulas stand in blocks. */
export function countFormulas(tokens: Token[] = []): number {
  let count = 0;
  for (const token of tokens) {
    const { tokens: inside, items, header, rows } = token as Tokens.Generic;
    if (isFormula(token)) count += 1;
    count += countFormulas(inside) + countFormulas(items);
    if (token.type === "table")
      for (const cell of [header, ...rows].flat() as Tokens.TableCell[]) count += countFormulas(cell.tokens);
  }
  return count;
}
