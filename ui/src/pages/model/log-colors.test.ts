import { expect, it } from "vitest";
import { runsOf } from "./log-colors";
import { LineMaker, matchesOf, piecesOf } from "./log-lines";

const ESC = "\u001b";

it("reads colours and bold, and nothing else", () => {
  expect(runsOf("plain")).toBeUndefined();
  expect(runsOf(`a${ESC}[1;31mred${ESC}[22mthin${ESC}[0mb`)).toEqual([
    { text: "a", color: undefined, bold: false },
    { text: "red", color: "red", bold: true },
    { text: "thin", color: "red", bold: false },
    { text: "b", color: undefined, bold: false },
  ]);
  const colorOf = (numbers: string) => runsOf(`${ESC}[${numbers}mx`)?.[0]?.color;
  expect(["32", "33", "34", "35", "36", "92", "90"].map(colorOf)).toEqual([
    "green",
    "yellow",
    "blue",
    "magenta",
    "cyan",
    "green",
    "grey",
  ]);
  // Black and white are the text; grounds, and colours without a name, change nothing.
  expect(["30", "37", "97", "41", "38;5;200", "38;2;255;0;0", "31;39", "31;"].map(colorOf)).toEqual(
    Array.from({ length: 8 }, () => undefined),
  );
  const indexed = ["38;5;1", "48;5;2;31", "48;2;1;2;3;31", "38;5;8"];
  expect(indexed.map(colorOf)).toEqual(["red", "red", "red", "grey"]);
  expect(runsOf(`${ESC}[31m${ESC}[2Jx`)).toBeUndefined();
});

it("searches, copies and cuts a coloured line by what is read", () => {
  const [line] = new LineMaker().lines([`${ESC}[32mIN${ESC}[0mFO ready`], 0);
  expect(line).toMatchObject({ text: "INFO ready", level: "info" });
  expect(matchesOf(line ? [line] : [], "info")).toEqual([0]);
  expect(line && piecesOf(line, "nfo")).toEqual([
    { text: "I", hit: false, color: "green", bold: false },
    { text: "N", hit: true, color: "green", bold: false },
    { text: "FO", hit: true, color: undefined, bold: false },
    { text: " ready", hit: false, color: undefined, bold: false },
  ]);
});
