import { expect, it } from "vitest";
import { rankedOf, vectorsOf } from "@/data/inference";
import { cosine, linesOf, norm } from "./math";

it("measures vectors", () => {
  expect(norm([3, 4])).toBe(5);
  expect(cosine([1, 0], [0, 2])).toBe(0);
  expect(cosine([1, 1], [2, 2])).toBeCloseTo(1);
  expect(cosine([1, 0], [-1, 0])).toBe(-1);
  expect(cosine([0, 0], [1, 0])).toBeNull();
  expect(cosine([1], [1, 0])).toBeNull();
});

it("reads one text a line", () => expect(linesOf(" a \n\n b\n")).toEqual(["a", "b"]));

it("reads an engine's vectors in the order of the texts, and refuses what is none", () => {
  const data = [
    { index: 1, embedding: [2] },
    { index: 0, embedding: [1] },
  ];
  expect(vectorsOf({ data, usage: { prompt_tokens: 4 } })).toEqual({ vectors: [[1], [2]], tokens: 4 });
  expect(() => vectorsOf({ data: [{ embedding: "x" }] })).toThrow("no vectors");
  expect(() => vectorsOf({})).toThrow("no vectors");
});

it("orders an engine's scores, the best first", () => {
  const results = [
    { index: 0, relevance_score: 0.1 },
    { index: 1, relevance_score: 0.9 },
  ];
  expect(rankedOf({ results })).toEqual([
    { index: 1, score: 0.9 },
    { index: 0, score: 0.1 },
  ]);
});
