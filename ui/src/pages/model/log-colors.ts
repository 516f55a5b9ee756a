import { plainLine } from "@/parts/models/phases";

export type Color = "red" | "green" | "yellow" | "blue" | "magenta" | "cyan" | "grey";
/** A part of a line that looks the same. */
export type Run = { text: string; color?: Color; bold: boolean };

const ESC = String.fromCharCode(27);
const COLOR = new RegExp(`${ESC}\\[([0-9;]*)m`, "g");
/** What a terminal calls 0 to 7. Black and white are the text itself, in both themes. */
const BASIC = [undefined, "red", "green", "yellow", "blue", "magenta", "cyan", undefined] as const;

/** Returns the look after a sequence of SGR: colours of the text and bold. Grounds, and all else that it knows, change nothing. */
function after(look: Omit<Run, "text">, numbers: string): Omit<Run, "text"> {
  const codes = numbers.split(";").map(Number);
  let { color, bold } = look;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) [color, bold] = [undefined, false];
    else if (code === 1) bold = true;
    else if (code === 22) bold = false;
    else if (code === 39) color = undefined;
    else if (code === 90) color = "grey";
    else if ((code >= 30 && code <= 37) || (code >= 91 && code <= 97)) color = BASIC[code % 10];
    else if (code === 38 || code === 48) {
      // One of 256 colours, or three parts of one: only the first 16 have names.
      const [kind, index = 16] = codes.slice(at + 1);
      if (code === 38) color = kind !== 5 || index > 15 ? undefined : index === 8 ? "grey" : BASIC[index % 8];
      at += kind === 5 ? 2 : 4;
    }
  }
  return { color, bold };
}

/** Cuts a line where its colours change; `undefined` if it has none. */
export function runsOf(line: string): Run[] | undefined {
  if (!line.includes(ESC)) return undefined;
  const runs: Run[] = [];
  let look: Omit<Run, "text"> = { bold: false };
  let from = 0;
  const add = (to: number) => to > from && runs.push({ text: line.slice(from, to), ...look });
  for (const found of line.matchAll(COLOR)) {
    add(found.index);
    look = after(look, found[1] ?? "");
    from = found.index + found[0].length;
  }
  add(line.length);
  // What has other sequences, too, is shown as it is read.
  return runs.map((it) => it.text).join("") === plainLine(line) ? runs : undefined;
}
