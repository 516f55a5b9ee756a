import { expect, it } from "vitest";
import { readArtifacts } from "./artifacts";

it("reads what is as expected, and nothing else", () => {
  const made = readArtifacts({
    path: "/x",
    files: 3,
    signed: false,
    images: ["a"],
    models: [{ served_name: "m" }],
    proof: {
      rows: { users: 2, odd: "x" },
      digests: { users: "ab" },
      enabled_owners: 1,
      usage: { requests: 7 },
      audit: { verifies: true },
    },
  });
  expect(made?.text("path")).toBe("/x");
  expect(made?.text("files")).toBeUndefined();
  expect(made?.number("files")).toBe(3);
  expect(made?.yes("signed")).toBe(false);
  expect(made?.list("models")).toEqual(["m"]);
  expect(made?.proof).toEqual({
    rows: { users: 2 },
    digests: { users: "ab" },
    owners: 1,
    requests: 7,
    audit: true,
  });
});

it("does not fail on anything", () => {
  expect(readArtifacts(null)).toBeNull();
  expect(readArtifacts("text")).toBeNull();
  expect(readArtifacts({})?.list("images")).toEqual([]);
  expect(readArtifacts({ proof: [] })?.proof).toBeNull();
});
