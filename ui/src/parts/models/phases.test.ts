import { expect, it } from "vitest";
import { learnedFrom, linesOf, loadedShare, phaseOf } from "./phases";

const event = (from: string, to: string, duration_ms: number | null) =>
  ({ at: "2026-01-01T00:00:00Z", from, to, reason: null, detail: null, duration_ms }) as never;

it("takes the phase from the state, the pull and the log, and guesses none", () => {
  expect(phaseOf("starting", true, [])).toBe("image");
  expect(phaseOf("starting", false, [])).toBe("container");
  expect(phaseOf("loading", false, ["loading model"])).toBe("weights");
  expect(phaseOf("loading", false, ["INFO Model loading took 4.2 GiB"])).toBe("warmUp");
  expect(phaseOf("running", false, [])).toBe("ready");
});

it("reads how much is loaded from the engine's own words, the newest", () => {
  expect(
    loadedShare([
      "Loading safetensors checkpoint shards:  25% Completed",
      "… checkpoint shards:  50% Completed",
    ]),
  ).toBe(0.5);
  expect(loadedShare(["loading"])).toBeNull();
});

it("learns from starts that got ready, not from those that failed", () => {
  const events = [
    event("loading", "failed", 90_000),
    event("running", "stopped", 1),
    event("loading", "running", 4000),
    event("starting", "loading", 500),
    event("loading", "running", 6000),
    event("starting", "loading", 700),
  ];
  expect(learnedFrom(events)).toEqual({ starting: 700, loading: 6000, starts: 2 });
  expect(learnedFrom([event("loading", "failed", 1)])).toBeNull();
});

it("shows lines without colours and without what was written over", () => {
  expect(linesOf("\u001b[31mred\u001b[0m\n 10%\r 20%\r\n")).toEqual(["red", " 20%"]);
});
