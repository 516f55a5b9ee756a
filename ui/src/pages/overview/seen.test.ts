import { expect, it } from "vitest";
import type { Model, UsageRow } from "@/api/types";
import { newestOf } from "./newest";
import { marked, NOTHING_SEEN, unseen, unseenFirst } from "./seen";

const row = (id: string, at: string) =>
  ({
    id,
    created_at: at,
    status_code: 503,
    model_name: "m",
    endpoint: "/v1/chat/completions",
    outcome: "rejected",
    requests: 1,
  }) as UsageRow;
const model = { id: 7, served_name: "m" } as Model;
const [FIRST, SECOND] = ["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"];

it("hides failures that were marked, and shows them again when they happen again", () => {
  const seen = marked(NOTHING_SEEN, newestOf([{ model, at: FIRST }], [row("a", FIRST)]));
  expect(unseen(seen, [{ model, at: FIRST }], [row("a", FIRST)])).toEqual([[], []]);
  const again = unseen(seen, [{ model, at: SECOND }], [row("b", SECOND), row("a", FIRST)]);
  expect(again).toEqual([[{ model, at: SECOND }], [row("b", SECOND)]]);
});

it("keeps what was marked away while its time is not known, and marks nothing without one", () => {
  const seen = marked(NOTHING_SEEN, newestOf([{ model, at: FIRST }], []));
  expect(unseen(seen, [{ model, at: undefined }], [])).toEqual([[], []]);
  expect(marked(NOTHING_SEEN, [{ kind: "model", model, at: undefined }])).toEqual({});
});

it("asks first for models of which nothing was marked, and forgets the oldest marks", () => {
  const seen = marked(NOTHING_SEEN, [{ kind: "model", model, at: FIRST }]);
  const other = { id: 8, served_name: "n" } as Model;
  expect(unseenFirst(seen, [model, other]).map((it) => it.id)).toEqual([8, 7]);
  const many = Array.from({ length: 300 }, (_, id) => ({
    kind: "model" as const,
    model: { id } as Model,
    at: new Date(id * 1000).toISOString(),
  }));
  const kept = marked(NOTHING_SEEN, many);
  expect([Object.keys(kept).length, "model 299" in kept, "model 0" in kept]).toEqual([200, true, false]);
});
