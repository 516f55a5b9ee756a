import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { LiveEvents, Model, ModelState } from "@/api/types";
import { modelKeys } from "@/data/query-keys";
import { patch } from "./patch";

const STATES: ModelState[] = ["stopped", "starting", "loading", "running", "stopping", "failed"];
const EVENTS = 10_000;

/** The same numbers in every run (mulberry32). */
function randomFrom(seed: number): (below: number) => number {
  let at = seed;
  return (below) => {
    at = (at + 0x6d2b79f5) | 0;
    let it = Math.imul(at ^ (at >>> 15), 1 | at);
    it = (it + Math.imul(it ^ (it >>> 7), 61 | it)) ^ it;
    return ((it ^ (it >>> 14)) >>> 0) % below;
  };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it.each([1, 2, 3])(
  `shows the gateway's own state on all pages whenever it is quiet during ${EVENTS} random events (seed %i)`,
  async (seed) => {
    const random = randomFrom(seed);
    const client = new QueryClient({
      defaultOptions: { queries: { staleTime: Infinity, networkMode: "always" } },
    });
    const truth = new Map<number, Model>();
    let next = 1;
    const make = () => {
      const id = next;
      next += 1;
      truth.set(id, {
        id,
        served_name: `m${id}`,
        state: "stopped",
        state_reason: null,
        diagnosis: null,
      } as Model);
      return id;
    };
    for (let at = 0; at < 8; at += 1) make();
    // What the gateway answers is what was true when it was asked; it arrives later.
    const answer = <T>(value: T): Promise<T> =>
      new Promise((done) => setTimeout(() => done(value), random(80)));
    const list = () => [...truth.values()];
    const observers = [
      new QueryObserver(client, { queryKey: modelKeys.list(false), queryFn: () => answer(list()) }),
      ...[1, 2, 3].map(
        (id) =>
          new QueryObserver(client, {
            queryKey: modelKeys.one(id),
            queryFn: () => answer(truth.get(id) ?? null),
          }),
      ),
    ];
    for (const it of observers) it.subscribe(() => {});
    const tell = (event: string, data: unknown) =>
      // Events keep their order; each takes as long as the one before it.
      setTimeout(() => patch(client, event, JSON.stringify(data)), 5);

    let disagreements = 0;
    const compare = () => {
      const shown = client.getQueryData<Model[]>(modelKeys.list(false)) ?? [];
      const states = (models: Model[]) => models.map((it) => `${it.id} ${it.state}`).join();
      if (states(shown.toSorted((a, b) => a.id - b.id)) !== states(list())) disagreements += 1;
      for (const id of [1, 2, 3]) {
        const one = client.getQueryData<Model>(modelKeys.one(id));
        if (one?.state !== truth.get(id)?.state) disagreements += 1;
      }
    };
    for (let at = 0; at < EVENTS; at += 1) {
      const ids = [...truth.keys()];
      const id = ids[random(ids.length)] ?? 1;
      const what = random(20);
      if (what === 0 && id > 3) {
        truth.delete(id);
        tell("model_deleted", { id });
      } else {
        const chosen = what === 1 ? make() : id;
        const state = STATES[random(STATES.length)] ?? "running";
        const reason = state === "failed" ? `reason ${at}` : null;
        const before = truth.get(chosen);
        truth.set(chosen, {
          ...before,
          state,
          state_reason: reason,
          needs_apply: false,
          archived: false,
        } as Model);
        const { served_name } = truth.get(chosen) as Model;
        const event: LiveEvents["model"] = {
          id: chosen,
          served_name,
          state,
          state_reason: reason,
          needs_apply: false,
          archived: false,
          diagnosis: null,
        };
        tell("model", event);
      }
      await vi.advanceTimersByTimeAsync(random(60));
      // Now and then nothing happens for a while: then everything must be right.
      if (random(10) === 0) {
        await vi.advanceTimersByTimeAsync(400);
        compare();
      }
    }
    await vi.advanceTimersByTimeAsync(400);
    compare();
    expect(disagreements).toBe(0);
    client.clear();
  },
);
