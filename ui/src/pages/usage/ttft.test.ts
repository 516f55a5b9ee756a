import { expect, it } from "vitest";
import { bucketsOf } from "./ttft";

it("counts every value once, and leaves out the empty ends", () => {
  const values = [0, 24, 25, 99, 100, 999, 1_000_000];
  const buckets = bucketsOf(values);
  expect(buckets.reduce((sum, it) => sum + it.count, 0)).toBe(values.length);
  expect(buckets[0]).toEqual({ from: 0, to: 25, count: 2 });
  expect(buckets.at(-1)?.to).toBeNull();
  expect(bucketsOf([500]).map((it) => it.count)).toEqual([0, 1, 0]);
  expect(bucketsOf([])).toEqual([]);
});
