import { describe, expect, it } from "vitest";
import { changesOf, checkChain } from "./changes";

describe("changesOf", () => {
  it("names fields that differ, nested ones by their path, and leaves the others out", () => {
    const before = { name: "a", same: 1, limits: { rpm: 5, tpm: 9 } };
    const after = { name: "b", same: 1, limits: { rpm: 6, tpm: 9 } };
    expect(changesOf({ before, after })).toEqual([
      { field: "name", before: "a", after: "b" },
      { field: "limits.rpm", before: 5, after: 6 },
    ]);
  });

  it("tells a field that was not there from one that was null", () => {
    expect(changesOf({ before: { a: null }, after: { b: null } })).toEqual([
      { field: "a", before: null, after: undefined },
      { field: "b", before: undefined, after: null },
    ]);
    expect(changesOf({ before: null, after: null })).toEqual([]);
  });
});

describe("checkChain", () => {
  const rows = [
    { seq: 9, hash: "i", prev_hash: "h" },
    { seq: 8, hash: "h", prev_hash: "g" },
    { seq: 5, hash: "e", prev_hash: "d" },
    { seq: 4, hash: "d", prev_hash: "c" },
  ];

  it("checks neighbours only", () => {
    expect(checkChain(rows)).toEqual({ links: 2, broken: null });
    expect(checkChain([])).toEqual({ links: 0, broken: null });
  });

  it("finds the row whose predecessor is another one", () => {
    expect(checkChain(rows.with(3, { seq: 4, hash: "x", prev_hash: "c" }))).toEqual({
      links: 1,
      broken: { seq: 5, before: 4 },
    });
  });
});
