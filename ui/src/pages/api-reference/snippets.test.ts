import { expect, it } from "vitest";
import { matches, type Operation } from "./operations";
import { python, secretOf, snippetsOf } from "./snippets";

const operation: Operation = {
  operationId: "createModel",
  method: "POST",
  path: "/admin/models",
  summary: "Add a model",
  tags: ["Models"],
  responses: {},
  "x-gantry-role": "admin",
  "x-gantry-example": {
    request: { method: "POST", path: "/admin/models", body: { name: "it's", on: true } },
  },
};

it("writes a call for each language, with the real address and without a secret", () => {
  const [curl, inPython, javascript] = snippetsOf(operation, "http://gw:8084");
  expect(curl?.code).toContain(`curl -X POST 'http://gw:8084/admin/models'`);
  expect(curl?.code).toContain("Bearer $GANTRY_TOKEN");
  expect(curl?.code).toContain(`it'\\''s`);
  expect(inPython?.code).toContain(`"on": True,`);
  expect(javascript?.code).toContain(`method: "POST"`);
});

it("sends no body where the example has none", () => {
  const get = {
    ...operation,
    method: "GET",
    "x-gantry-example": { request: { method: "GET", path: "/x", body: null } },
  };
  expect(
    snippetsOf(get, "http://gw")
      .map((it) => it.code)
      .join(),
  ).not.toMatch(/null|-d |json=|body:/);
});

it("takes a key for inference, a token for the rest, and nothing where nobody need sign in", () => {
  expect(secretOf({ path: "/v1/models", "x-gantry-role": "user" })).toBe("GANTRY_API_KEY");
  expect(secretOf({ path: "/auth/me", "x-gantry-role": "user" })).toBe("GANTRY_TOKEN");
  expect(secretOf({ path: "/livez", "x-gantry-role": null })).toBeNull();
});

it("writes values as Python does", () => {
  expect(python({ a: [null, 1.5, "x"], b: {} })).toBe(
    '{\n    "a": [\n        None,\n        1.5,\n        "x",\n    ],\n    "b": {},\n}',
  );
});

it("finds operations by words in any order", () => {
  expect(matches(operation, "model post")).toBe(true);
  expect(matches(operation, "")).toBe(true);
  expect(matches(operation, "model delete")).toBe(false);
});
