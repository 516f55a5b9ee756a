import { expect, it } from "vitest";
import type { User } from "@/api/types";
import { NO_LIMITS } from "@/kit/limits/limits";
import { bodyOf, changesOf, NEW_USER, newPassword, valuesOf } from "./user-values";

const ADA = {
  ...NO_LIMITS,
  username: "ada",
  role: "user",
  org_id: 2,
  models: ["qwen"],
  rpm_limit: 5,
} as User;

it("sends only what was changed", () => {
  expect(changesOf(valuesOf(ADA), ADA, true)).toEqual({});
  const next = { ...valuesOf(ADA), role: "org_admin" as const, models: [] };
  expect(changesOf(next, ADA, true)).toEqual({ role: "org_admin", models: null });
});

it("sends no limits where the role may not set them: the gateway would refuse the whole request", () => {
  const next = { ...valuesOf(ADA), password: "correct horse", models: [], limits: NO_LIMITS };
  expect(changesOf(next, ADA, false)).toEqual({ password: "correct horse" });
  const made = bodyOf({ ...NEW_USER, username: " bob ", password: "correct horse" }, false);
  expect(made).toEqual({ username: "bob", password: "correct horse", role: "user" });
});

it("sends no password for who is invited, also if one was typed before", () => {
  const made = bodyOf({ ...NEW_USER, username: "bob", password: "correct horse", invite: true }, false);
  expect(made).toEqual({ username: "bob", role: "user" });
});

it("makes passwords that differ and that the gateway takes", () => {
  const made = new Set(Array.from({ length: 50 }, newPassword));
  expect(made.size).toBe(50);
  for (const it of made) expect(it).toMatch(/^[a-zA-Z2-9]{20}$/);
});
