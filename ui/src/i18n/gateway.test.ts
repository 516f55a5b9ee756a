import { expect, it } from "vitest";
import { de } from "@/api/gateway-de";
import { inGerman } from "./gateway";

const PAIRS: [string, string][] = [
  ["File not found", "Datei nicht gefunden"],
  ["`{flag}` can't be set[ ({why})]; see the log", "`{flag}` geht nicht[ ({why})]; siehe Protokoll"],
  ["{free} of {total} GiB are free (or {asked})", "{asked} oder {free}, von {total} GiB"],
  ["use the longest that fits[: {length} tokens]", "nehmen Sie das Längste, was passt[: {length} Tokens]"],
];

it.each([
  ["File not found", "Datei nicht gefunden"],
  ["`--x` can't be set; see the log", "`--x` geht nicht; siehe Protokoll"],
  [
    "`--x` can't be set (a (b) [c] {why}); see the log",
    "`--x` geht nicht (a (b) [c] {why}); siehe Protokoll",
  ],
  ["3.5 of 24 GiB are free (or 0.9)", "0.9 oder 3.5, von 24 GiB"],
  ["use the longest that fits", "nehmen Sie das Längste, was passt"],
  ["use the longest that fits: 4096 tokens", "nehmen Sie das Längste, was passt: 4096 Tokens"],
])("says the text of a template in German, with its values: %s", (english, german) => {
  expect(inGerman(english, PAIRS)).toBe(german);
});

it("leaves a text that no template made as it is", () => {
  expect(inGerman("File not found.", PAIRS)).toBe("File not found.");
  expect(inGerman("anything")).toBe("anything");
});

it("finds the German of every text of the gateway, with every value in it", () => {
  const plain = (template: string) => template.replaceAll(/[[\]]/g, "").replaceAll(/\{(\w+)\}/g, "<$1>");
  for (const pairs of Object.values(de.diagnoses))
    for (const [english, german] of pairs) expect(inGerman(plain(english), pairs)).toBe(plain(german));
});
