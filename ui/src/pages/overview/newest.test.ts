import { expect, it } from "vitest";
import type { Model, UsageRow } from "@/api/types";
import { newestOf } from "./newest";

const row = (id: string, at: string, more: Partial<UsageRow> = {}) =>
  ({
    id,
    created_at: at,
    status_code: 503,
    model_name: "m",
    endpoint: "/v1/chat/completions",
    outcome: "rejected",
    requests: 1,
    ...more,
  }) as UsageRow;
const model = (served_name: string) => ({ served_name }) as Model;

it("counts requests that failed in the same way, and shows the newest of them", () => {
  const rows = [
    row("c", "2026-01-01T00:00:03Z"),
    row("b", "2026-01-01T00:00:02Z", { requests: 40 }),
    row("a", "2026-01-01T00:00:01Z", { status_code: 502, outcome: "upstream_error" }),
  ];
  expect(newestOf([], rows)).toMatchObject([
    { row: { id: "c" }, count: 41, at: "2026-01-01T00:00:03Z" },
    { row: { id: "a" }, count: 1 },
  ]);
});

it("puts models that failed among the requests by their time, and first while it is not known", () => {
  const rows = [row("a", "2026-01-01T00:00:05Z")];
  const failed = newestOf(
    [
      { model: model("old"), at: "2026-01-01T00:00:01Z" },
      { model: model("new"), at: "2026-01-01T00:00:09Z" },
      { model: model("asked"), at: undefined },
    ],
    rows,
  );
  expect(failed.map((it) => (it.kind === "model" ? it.model.served_name : it.row.id))).toEqual([
    "asked",
    "new",
    "a",
    "old",
  ]);
});
