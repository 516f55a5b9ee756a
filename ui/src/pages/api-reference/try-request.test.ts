import { expect, it } from "vitest";
import { addressOf, pretty } from "./try-request";

it("fills in the path, leaves out what is empty, and encodes both", () => {
  expect(addressOf("/admin/models/{id}/logs", { id: "a/b" }, { tail: "10", level: "", q: "a&b" })).toBe(
    "/admin/models/a%2Fb/logs?tail=10&q=a%26b",
  );
  expect(addressOf("/livez", {}, {})).toBe("/livez");
});

it("breaks JSON into lines and leaves the rest alone", () => {
  expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(pretty("ok")).toBe("ok");
});
