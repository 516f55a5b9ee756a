import { expect, it } from "vitest";
import { namedMarks } from "./histogram";

it("joins the names of marks that would cover each other", () => {
  const marks = [
    { label: "p50", place: 0.1 },
    { label: "p95", place: 0.12 },
    { label: "p99", place: 0.6 },
  ];
  expect(namedMarks(marks).map((it) => it.label)).toEqual(["", "p50, p95", "p99"]);
});
