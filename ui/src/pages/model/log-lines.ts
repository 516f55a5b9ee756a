import { plainLine } from "@/parts/models/phases";
import { type Run, runsOf } from "./log-colors";

export type Level = "error" | "warning" | "info";

/**
 * One line as it is shown: its number since the log was opened, its text without colours, its level, and its parts where the engine
 * coloured it.
 */
export type Line = { number: number; text: string; level: Level; runs?: Run[] };

const ERROR =
  /^(?:\S+ )?E\s|\b(?:ERROR|CRITICAL|FATAL)\b|^\s*(?:error|fatal|panic)\b|(?:Error|Exception):|^Traceback /;
const WARNING = /^(?:\S+ )?W\s|\b(?:WARNING|WARN)\b|^\s*warning\b|\bwarn(?:ing)?:/;

/** Returns the level of a line: vLLM writes a word, llama.cpp a letter behind the time. */
export function levelOf(text: string): Level {
  if (ERROR.test(text)) return "error";
  return WARNING.test(text) ? "warning" : "info";
}

/** Makes the lines that are shown. What was made before is used again while a log grows. */
export class LineMaker {
  #made: Line[] = [];
  #first = 0;

  /** Takes the whole log, and returns its lines with their levels. */
  lines(raw: string[], first: number): Line[] {
    const last = this.#made.at(-1);
    const known = last ? last.number + 1 : first;
    if (first < this.#first || known < first || known > first + raw.length) this.#made = [];
    const from = this.#made.length > 0 ? known - first : 0;
    const kept = this.#made.length > 0 ? this.#made.slice(first - this.#first) : [];
    const added = raw.slice(from).map((it, index) => {
      const text = plainLine(it);
      return { number: first + from + index, text, level: levelOf(text), runs: runsOf(it) };
    });
    this.#made = added.length > 0 || kept.length !== this.#made.length ? kept.concat(added) : this.#made;
    this.#first = first;
    return this.#made;
  }
}

/** Returns the places of the lines that contain a text, whatever its case. */
export function matchesOf(lines: Line[], word: string): number[] {
  const sought = word.toLowerCase();
  if (sought === "") return [];
  const found: number[] = [];
  lines.forEach((it, index) => {
    if (it.text.toLowerCase().includes(sought)) found.push(index);
  });
  return found;
}

/** Returns the place of a line that a diagnosis quotes: it cuts prefixes and colours off. The newest one counts. */
export function placeOf(lines: Line[], quote: string): number {
  const sought = quote.trim();
  return sought === "" ? -1 : lines.findLastIndex((it) => it.text.includes(sought));
}

/** Cuts a line where a text occurs in it. */
export function partsOf(text: string, word: string): { text: string; hit: boolean }[] {
  if (word === "") return [{ text, hit: false }];
  const parts: { text: string; hit: boolean }[] = [];
  const lower = text.toLowerCase();
  const sought = word.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(sought); at >= 0; at = lower.indexOf(sought, from)) {
    if (at > from) parts.push({ text: text.slice(from, at), hit: false });
    parts.push({ text: text.slice(at, at + sought.length), hit: true });
    from = at + sought.length;
  }
  if (from < text.length) parts.push({ text: text.slice(from), hit: false });
  return parts;
}

/** Cuts a line where a text occurs in it, and where its colours change. */
export function piecesOf(line: Line, word: string): (Run & { hit: boolean })[] {
  const parts = partsOf(line.text, word);
  if (!line.runs) return parts.map((it) => ({ ...it, bold: false }));
  const pieces: (Run & { hit: boolean })[] = [];
  let [at, begin] = [0, 0];
  for (const run of line.runs) {
    for (let from = 0; from < run.text.length; ) {
      const part = parts[at];
      if (!part) return pieces;
      const length = Math.min(run.text.length - from, part.text.length - begin);
      pieces.push({ ...run, text: run.text.slice(from, from + length), hit: part.hit });
      from += length;
      begin += length;
      if (begin >= part.text.length) [at, begin] = [at + 1, 0];
    }
  }
  return pieces;
}
