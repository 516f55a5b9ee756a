import { expect, it } from "vitest";
import { bucketFor, filterOf, NO_MODEL, timesOf, within } from "./filter";

it("reads the address, and leaves out what the gateway would refuse", () => {
  expect(filterOf({ model: "a b", key: "7", status: "4xx", outcome: "ok" })).toMatchObject({
    model: "a b",
    key_id: 7,
    status: "4xx",
    outcome: "ok",
  });
  const wrong = filterOf({ key: "0", user: "x", status: "9xx", outcome: "fine", task: "dance" });
  expect(Object.values(wrong).filter(Boolean)).toEqual([]);
});

it("asks for requests without a model by `no_model`, as any text may be a model's name", () => {
  expect(filterOf({ model: NO_MODEL })).toMatchObject({ no_model: "true" });
  expect(filterOf({ model: NO_MODEL })).not.toHaveProperty("model");
  expect(within({}, "model", { id: null, name: "" })).toEqual({ no_model: "true" });
});

it("has no filter for requests without a user or a key: the API has none", () => {
  expect(within({ model: "m" }, "user", { id: null, name: "" })).toBeNull();
  expect(within({ model: "m" }, "user", { id: 3, name: "ada" })).toEqual({ model: "m", user_id: 3 });
});

it("has at most some 200 steps, which a chart can show, and no more minutes than the gateway gives", () => {
  for (const minutes of [15, 60, 180, 360, 1440, 10_080, 43_200, 129_600]) {
    const length = { minute: 1, hour: 60, day: 1440 }[bucketFor(minutes)];
    expect(minutes / length).toBeLessThanOrEqual(200);
  }
});

it("asks for whole hours where a long range ends now, and else for exactly what was chosen", () => {
  const at = (time: string) => Date.parse(`2026-11-24T${time}Z`);
  const day = timesOf({ last: "24h" }, at("12:44:10"));
  expect(day).toEqual({
    bucket: "hour",
    from: at("12:00:00") - 86_400_000,
    to: at("12:44:25"),
    until: at("12:44:10"),
    before: 2 * (at("12:00:00") - 86_400_000) - at("12:44:10"),
  });
  // No step of the series begins in the future.
  expect(timesOf({ last: "24h" }, at("12:59:50")).to).toBe(at("13:00:00"));
  const chosen = { from: at("01:02:03"), to: at("11:12:13") };
  expect(timesOf(chosen, at("12:44:10"))).toMatchObject({ ...chosen, until: chosen.to });
  expect(timesOf({ last: "1h" }, at("12:44:10"))).toMatchObject({ from: at("11:44:10"), to: at("12:44:10") });
});
