import { expect, it } from "vitest";
import { binaryStep, drawnValues, rowFor } from "./plot-options";
import type { Pane } from "./time-series";

const pane: Pane = {
  id: "p",
  title: "",
  write: String,
  stacked: true,
  series: [
    { id: "a", label: "a", values: [1, null, 3] },
    { id: "b", label: "b", values: [10, 20, null] },
  ],
};

it("draws a stack up to the sum, and a series that is alone from the ground", () => {
  expect(drawnValues(pane, null)).toEqual([
    [1, 0, 3],
    [11, 20, 3],
  ]);
  expect(drawnValues(pane, "b")[1]).toEqual([10, 20, null]);
  expect(drawnValues({ ...pane, stacked: false }, null)[1]).toEqual([10, 20, null]);
});

it("puts names that would cover each other into rows, and leaves out what has no room", () => {
  const taken: number[] = [];
  expect([0, 10, 20, 30, 40].map((from) => rowFor(taken, from, 100))).toEqual([0, 1, 2, 3, undefined]);
  expect(rowFor(taken, 100, 100)).toBe(0);
});

it("divides sizes by powers of two", () => {
  expect(binaryStep(9000)).toBe(16_384);
  expect(binaryStep(1024)).toBe(1024);
  expect(binaryStep(0)).toBe(1);
});
