import { expect, it } from "vitest";
import type { Model } from "@/api/types";
import type { AuditRow } from "@/data/audit";
import { namesOf } from "./names";

type Row = Pick<AuditRow, "object_type" | "object_id" | "before" | "after">;
const row = (
  object_type: AuditRow["object_type"],
  object_id: string,
  after: Row["after"] = null,
  before: Row["before"] = null,
): Row => ({ object_type, object_id, before, after });

it("names an object by its row, by another row of it, or by the model that is there now", () => {
  const rows = [
    row("model", "13"),
    row("user", "5", { enabled: false }),
    row("user", "5", { username: "uma" }),
    row("user", "5", { username: "old" }),
    row("org", "5", null, { name: "Acme" }),
    row("key", "5"),
    row("registry", "cloud/large", { name: "not its name" }),
  ];
  const nameOf = namesOf(rows, [{ id: 13, served_name: "qwen3-8b" } as Model]);
  expect(rows.map(nameOf)).toEqual(["qwen3-8b", "uma", "uma", "old", "Acme", undefined, undefined]);
});
