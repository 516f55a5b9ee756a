import { expect, it } from "vitest";
import { barsPath, linePath } from "./sparkline";

it("draws a bar for each count, and none for nothing", () => {
  expect(barsPath([0, 2, null, 1], 32, 2)).toBe("M25.00 31v-30.00h21.25v30.00zM75.00 31v-15.00h21.25v15.00z");
  expect(barsPath([], 32, 0)).toBe("");
});

it("draws a line with gaps", () => {
  expect(linePath([0, null, 1], 32, 1)).toBe("M0.00 31.00M100.00 1.00");
});
