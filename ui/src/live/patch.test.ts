import { QueryClient } from "@tanstack/react-query";
import { beforeEach, expect, it } from "vitest";
import type { LiveEvents, Model } from "@/api/types";
import { inferenceKeys, modelKeys, systemKeys, upstreamKeys } from "@/data/query-keys";
import { patch } from "./patch";

const model = (id: number, more: Partial<Model> = {}) =>
  ({
    id,
    served_name: `m${id}`,
    state: "running",
    state_reason: null,
    needs_apply: false,
    archived: false,
    diagnosis: null,
    ...more,
  }) as Model;
const now = (id: number, more: Partial<LiveEvents["model"]> = {}): LiveEvents["model"] => ({
  id,
  served_name: `m${id}`,
  state: "running",
  state_reason: null,
  needs_apply: false,
  archived: false,
  diagnosis: null,
  ...more,
});

let client: QueryClient;
const send = (event: string, data: unknown) => patch(client, event, JSON.stringify(data));
const list = () => client.getQueryData<Model[]>(modelKeys.list(false));
const isStale = (key: readonly unknown[]) => client.getQueryState(key)?.isInvalidated;

beforeEach(() => {
  client = new QueryClient();
  client.setQueryData(modelKeys.list(false), [model(1), model(2)]);
  client.setQueryData(modelKeys.one(1), model(1));
});

it("shows a model's new state in the list and on its page at once, and asks for the rest", () => {
  send("model", now(1, { state: "failed", state_reason: "engine exited" }));
  expect(list()?.[0]).toMatchObject({ state: "failed", state_reason: "engine exited" });
  expect(client.getQueryData<Model>(modelKeys.one(1))?.state).toBe("failed");
  expect(isStale(modelKeys.list(false))).toBe(true);
  expect(isStale(modelKeys.one(1))).toBe(true);
});

it("asks for nothing if an event says what is known", () => {
  send("model", now(2));
  expect(isStale(modelKeys.list(false))).toBe(false);
  expect(list()).toHaveLength(2);
});

it("asks for a model that it does not know", () => {
  send("model", now(3, { state: "starting" }));
  expect(isStale(modelKeys.list(false))).toBe(true);
});

it("asks the gateway again for all that depends on a model's state", () => {
  const keys = [modelKeys.own, inferenceKeys.running, upstreamKeys.all, systemKeys.gpus];
  for (const [event, data] of [
    ["model", now(1, { state: "failed" })],
    ["model_deleted", { id: 2 }],
  ] as const) {
    for (const key of keys) client.setQueryData(key, []);
    send(event, data);
    expect(keys.map(isStale)).toEqual([true, true, true, true]);
  }
});

it("shows a user their models as the event has them, whatever an answer on its way says", async () => {
  const own = (callable: boolean) => [{ served_name: "m", callable }];
  client.setQueryData(inferenceKeys.running, []);
  let answer: (list: unknown) => void = () => {};
  const asked = client
    .fetchQuery({ queryKey: modelKeys.own, queryFn: () => new Promise((done) => (answer = done)) })
    .catch(() => {});
  send("models", own(false));
  await expect.poll(() => client.getQueryData(modelKeys.own)).toEqual(own(false));
  answer(own(true));
  await asked;
  expect(client.getQueryData(modelKeys.own)).toEqual(own(false));
  expect(isStale(inferenceKeys.running)).toBe(true);
});

it("takes deleted models away, also those that a snapshot no longer has", () => {
  send("model_deleted", { id: 1 });
  expect(list()?.map((it) => it.id)).toEqual([2]);
  expect(client.getQueryData(modelKeys.one(1))).toBeUndefined();
  send("snapshot", []);
  expect(list()).toEqual([]);
});

it("believes nothing older after a reset", () => {
  client.setQueryData(["usage", "rows"], []);
  send("reset", [{ ...now(1), pull: null }]);
  expect(list()?.map((it) => it.id)).toEqual([1]);
  expect(isStale(["usage", "rows"])).toBe(true);
});

it("keeps pulls while they run", () => {
  send("snapshot", [
    { ...now(1), pull: { done: 5, known: 10 } },
    { ...now(2), pull: null },
  ]);
  expect(client.getQueryData(modelKeys.pulls)).toEqual({ 1: { done: 5, known: 10 } });
  send("pull", { id: 1, pull: null });
  expect(client.getQueryData(modelKeys.pulls)).toEqual({});
});

it("disagrees with itself nowhere after random events", () => {
  const states = ["stopped", "starting", "loading", "running", "stopping", "failed"] as const;
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * below);
  };
  for (let round = 0; round < 10_000; round += 1) {
    const id = 1 + random(2);
    send("model", now(id, { state: states[random(6)] ?? "running", needs_apply: random(2) === 1 }));
    const one = client.getQueryData<Model>(modelKeys.one(1));
    const listed = list()?.find((it) => it.id === 1);
    expect([one?.state, one?.needs_apply]).toEqual([listed?.state, listed?.needs_apply]);
  }
});
