import { expect, it } from "vitest";
import { readNumber } from "./read-number";

it.each([
  ["32,768", "en", 32_768],
  ["1,234,567.5", "en", 1_234_567.5],
  ["0.9", "en", 0.9],
  [" 12 000 ", "en", 12_000],
  ["32.768", "de", 32_768],
  ["0,9", "de", 0.9],
  ["0.9", "de", 0.9],
  ["1.234,5", "de", 1234.5],
  ["1e9", "en", 1e9],
] as const)("reads %s in %s", (text, language, value) => expect(readNumber(text, language)).toBe(value));

it.each([
  ["", "en"],
  ["4,09", "en"],
  ["0,9", "en"],
  ["1,2,3", "de"],
  ["many", "en"],
  ["-", "en"],
  ["Infinity", "en"],
] as const)("does not guess what %s means in %s", (text, language) =>
  expect(readNumber(text, language)).toBeNull(),
);
