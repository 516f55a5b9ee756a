import { expect, it } from "vitest";
import { makeFormat } from "@/i18n/format";
import { binaryStep, drawnSpan, drawnTimes, drawnValues, optionsOf } from "./plot-options";
import type { Pane } from "./time-series";

type Given = Parameters<typeof optionsOf>[0];

const pane: Pane = {
  id: "p",
  title: "",
  write: String,
  stacked: true,
  series: [
    { id: "a", label: "a", values: [1, null, 3] },
    { id: "b", label: "b", values: [10, 20, null] },
  ],
};

it("draws a stack up to the sum, and a series that is alone from the ground", () => {
  expect(drawnValues(pane, null)).toEqual([
    [1, 0, 3],
    [11, 20, 3],
  ]);
  expect(drawnValues(pane, "b")[1]).toEqual([10, 20, null]);
  expect(drawnValues({ ...pane, stacked: false }, null)[1]).toEqual([10, 20, null]);
});

it("stands a bar that is alone on the ground", () => {
  expect(drawnValues({ ...pane, bars: true }, "b")).toEqual([
    [0, 0, 0],
    [10, 20, null],
  ]);
});

it("draws counts as bars, and everything else as lines", () => {
  const bars = () => null;
  const seriesOf = (shown: Pane) => {
    const latest = { current: { first: true, pane: shown, times: [], onCursor: () => {} } };
    const colors = { "series-1": "#111111", "series-2": "#222222" } as Given["colors"];
    const format = makeFormat("en", "UTC");
    return optionsOf({ latest, colors, format, sync: "s", width: 400, bars }).series.slice(1);
  };
  expect(seriesOf({ ...pane, bars: true })).toMatchObject([
    { paths: bars, fill: "#111111", width: 0 },
    { paths: bars, fill: "#222222", width: 0 },
  ]);
  expect(seriesOf({ ...pane, stacked: false }).map((it) => it.paths)).toEqual([undefined, undefined]);
});

it("shows the range that was chosen, however few values there are", () => {
  const [line, counts] = [
    { ...pane, stacked: false },
    { ...pane, bars: true },
  ];
  const hour = { from: 0, to: 3_600_000 };
  expect(drawnSpan(line, [3_300_000, 3_590_000], hour)).toEqual([0, 3600]);
  expect(drawnSpan(line, [3_300_000, 3_590_000], undefined)).toEqual([3300, 3590]);
  // A step that began before the range is shown as a whole, and so is one that ends after it.
  const minutes = [-30_000, 30_000, 90_000];
  expect(drawnSpan(counts, minutes, { from: 0, to: 100_000 })).toEqual([-30, 150]);
  expect(drawnTimes(counts, minutes, hour)).toEqual([0, 60, 120]);
  expect(drawnTimes(line, minutes, hour)).toEqual([-30, 30, 90]);
  // One step alone stands in the middle of what is left.
  expect(drawnTimes(counts, [1_800_000], hour)).toEqual([2700]);
});

it("divides sizes by powers of two", () => {
  expect(binaryStep(9000)).toBe(16_384);
  expect(binaryStep(1024)).toBe(1024);
  expect(binaryStep(0)).toBe(1);
});
