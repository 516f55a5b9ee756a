import { expect, it } from "vitest";
import type { Setting } from "@/data/settings";
import { envFile, envValue, matches } from "./env-file";

const setting = (name: string, value: string, source = "environment"): Setting => ({
  name,
  group: "Data",
  doc: "Days for which the log is kept.",
  allowed: "a whole number",
  default: "",
  value,
  source,
});

it("writes what was set, and no secret", () => {
  const file = envFile(
    [setting("A", "1"), setting("B", "x", "default"), setting("KEY", "***")],
    "# note",
    "hidden",
  );
  expect(file).toBe("# note\nA=1\n# KEY= hidden\n");
});

it("quotes what a shell would read otherwise", () => {
  expect(envValue("/srv/models,/data")).toBe("/srv/models,/data");
  expect(envValue("a b")).toBe("'a b'");
  expect(envValue("it's $HOME")).toBe(`'it'\\''s $HOME'`);
});

it("finds a setting by words of its name and of what it does, in any order", () => {
  const it = setting("AUDIT_RETENTION_DAYS", "365");
  expect(matches(it, "retention audit")).toBe(true);
  expect(matches(it, "log kept")).toBe(true);
  expect(matches(it, "log thrown")).toBe(false);
});
