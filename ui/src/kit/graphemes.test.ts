import { expect, it } from "vitest";
import { graphemes } from "./graphemes";

it("takes no character apart that people see as one", () => {
  for (const one of ["é", "a\u0308\u0323", "👩‍👩‍👧‍👦", "👩🏽", "🇩🇪", "क्षि", "한", "\u0645\u064f", "x"])
    expect(graphemes(`${one}b`)).toEqual([one, "b"]);
  expect(graphemes("")).toEqual([]);
});
