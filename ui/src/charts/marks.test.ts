import { expect, it, vi } from "vitest";
import { drawMarks, type Line, rowFor } from "./marks";

it("puts names that would cover each other into rows, and leaves out what has no room", () => {
  const taken: number[] = [];
  expect([0, 10, 20, 30, 40].map((from) => rowFor(taken, from, 100))).toEqual([0, 1, 2, 3, undefined]);
  expect(rowFor(taken, 100, 100)).toBe(0);
});

vi.stubGlobal("devicePixelRatio", 1);

type Box = { left: number; top: number; width: number; height: number };

/** Draws lines on a sheet of 400 × 200 where a value is a pixel and a letter 6 pixels wide, and returns what was drawn in order. */
function drawn(lines: Line[]) {
  const steps: { kind: "line" | "ground" | "name"; box?: Box; label?: string }[] = [];
  const ctx = {
    save: () => {},
    restore: () => {},
    setLineDash: () => {},
    beginPath: () => {},
    moveTo: () => {},
    lineTo: () => {},
    stroke: () => steps.push({ kind: "line" }),
    measureText: (label: string) => ({ width: label.length * 6 }),
    fillRect: (left: number, top: number, width: number, height: number) =>
      steps.push({ kind: "ground", box: { left, top, width, height } }),
    fillText: (label: string) => steps.push({ kind: "name", label }),
  };
  const plot = { ctx, bbox: { left: 0, top: 0, width: 400, height: 200 }, valToPos: (at: number) => at };
  drawMarks(plot as unknown as Parameters<typeof drawMarks>[0], lines, "#fff");
  return steps;
}

const mark = (at: number, label: string): Line => ({ vertical: true, at, label, line: "#f00", text: "#f00" });

it("draws every name on a ground of its own, after all lines, and none over another", () => {
  const across: Line = { vertical: false, at: 100, label: "90 %", line: "#fa0", text: "#fa0" };
  const steps = drawn([across, mark(10, "qwen failed"), mark(14, "bge failed"), mark(395, "bge started")]);
  expect(steps.map((it) => it.kind).join(" ")).toBe(`line line line line${" ground name".repeat(4)}`);
  const boxes = steps.flatMap((it) => it.box ?? []);
  for (const [at, a] of boxes.entries())
    for (const b of boxes.slice(at + 1)) {
      const apart =
        a.left + a.width <= b.left ||
        b.left + b.width <= a.left ||
        a.top + a.height <= b.top ||
        b.top + b.height <= a.top;
      expect(apart, JSON.stringify([a, b])).toBe(true);
    }
  for (const it of boxes) expect(it.left + it.width).toBeLessThanOrEqual(400);
});

it("draws nothing of what is outside, and only the line of a mark without a name", () => {
  const steps = drawn([mark(-5, "before"), mark(401, "after"), mark(20, "")]);
  expect(steps.map((it) => it.kind)).toEqual(["line"]);
});
