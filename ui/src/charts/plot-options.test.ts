import { expect, it } from "vitest";
import { drawnValues } from "./plot-options";
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
