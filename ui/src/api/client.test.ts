import { afterEach, expect, it, vi } from "vitest";
import { call, callPage, urlOf, watchCalls } from "./client";
import { ApiError, NetworkError } from "./errors";

afterEach(() => {
  vi.unstubAllGlobals();
  watchCalls({});
});

const answer = (status: number, body: unknown, headers = {}) =>
  vi.stubGlobal(
    "fetch",
    vi.fn(
      async () => new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers }),
    ),
  );

it("fills the path and leaves out what is not set", () => {
  expect(urlOf("changeRegistryEntry", { path: { served_name: "a/b c" } })).toBe(
    "/admin/models/registry/a%2Fb%20c",
  );
  expect(urlOf("listUsage", { query: { model: "q & a", user_id: undefined, limit: 5 } })).toBe(
    "/admin/usage?model=q+%26+a&limit=5",
  );
});

it("returns the entries of a list with the number of all", async () => {
  answer(200, [{ id: 1 }], { "x-total-count": "400000" });
  expect(await callPage("listKeys")).toEqual({ items: [{ id: 1 }], total: 400000 });
});

it("keeps every field of an error, and tells that the session ended", async () => {
  const signedOut = vi.fn();
  watchCalls({ signedOut });
  answer(422, {
    error: {
      message: "bad",
      type: "invalid_request_error",
      param: "a",
      code: "validation_error",
      details: [{ param: "a", message: "too long", code: "validation_error" }],
    },
    request_id: "r1",
  });
  await expect(call("getMe")).rejects.toMatchObject({
    status: 422,
    code: "validation_error",
    requestId: "r1",
    fields: [{ param: "a", message: "too long" }],
  });
  expect(signedOut).not.toHaveBeenCalled();
  answer(401, {
    error: { message: "sign in", type: "authentication_error", param: null, code: "unauthenticated" },
    request_id: "r2",
  });
  await expect(call("getMe")).rejects.toBeInstanceOf(ApiError);
  expect(signedOut).toHaveBeenCalledOnce();
});

it("takes a proxy's page for a lost gateway", async () => {
  const lost = vi.fn();
  watchCalls({ lost });
  answer(502, "<h1>Bad gateway</h1>");
  await expect(call("getMe")).rejects.toBeInstanceOf(NetworkError);
  vi.stubGlobal(
    "fetch",
    vi.fn(async () => Promise.reject(new TypeError("Failed to fetch"))),
  );
  await expect(call("getMe")).rejects.toBeInstanceOf(NetworkError);
  expect(lost).toHaveBeenCalledTimes(2);
});
