import { expect, it } from "vitest";
import type { Key } from "@/api/types";
import { NO_LIMITS } from "@/kit/limits/limits";
import { bodyOf, changesOf, NEW_KEY, valuesOf } from "./key-values";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const KEY = {
  ...NO_LIMITS,
  name: "laptop",
  scopes: "chat,embeddings",
  models: ["qwen"],
  ip_allowlist: ["10.0.0.0/8"],
  expires_at: "2026-06-01T00:00:00Z",
  limit_mode: "enforce",
  rpm_limit: 60,
} as Key;

it("sends only what was changed, so that another tab's change of another field stays", () => {
  expect(changesOf(valuesOf(KEY), KEY, NOW)).toEqual({});
  expect(changesOf({ ...valuesOf(KEY), name: "desk" }, KEY, NOW)).toEqual({ name: "desk" });
  const free = { ...valuesOf(KEY), models: [], expires: "never" as const };
  expect(changesOf(free, KEY, NOW)).toEqual({ models: null, expires_at: null });
  const open = { ...valuesOf(KEY), limits: { ...NO_LIMITS, rpm_limit: null } };
  expect(changesOf(open, KEY, NOW)).toEqual({ rpm_limit: null });
});

it("counts days of expiry from now", () => {
  expect(bodyOf({ ...NEW_KEY, expires: "7" }, null, NOW).expires_at).toBe("2026-01-08T00:00:00.000Z");
  expect(bodyOf(NEW_KEY, null, NOW).expires_at).toBeNull();
});
