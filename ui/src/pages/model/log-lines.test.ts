import { expect, it } from "vitest";
import { LineMaker, levelOf, matchesOf, partsOf, placeOf } from "./log-lines";

it("knows the levels of both engines", () => {
  expect(levelOf("0.00.015.197 E srv load failed")).toBe("error");
  expect(levelOf("0.00.015.197 W srv slow")).toBe("warning");
  expect(levelOf("0.00.015.197 I srv fine")).toBe("info");
  expect(levelOf("(APIServer pid=1) ERROR 01-02 03:04:05 boom")).toBe("error");
  expect(levelOf("torch.OutOfMemoryError: CUDA out of memory")).toBe("error");
  expect(levelOf("WARNING 01-02 careful")).toBe("warning");
});

it("makes each line once while a log grows and its beginning is dropped", () => {
  const maker = new LineMaker();
  const first = maker.lines(["a", "b"], 0);
  const more = maker.lines(["b", "c"], 1);
  expect(more.map((it) => [it.number, it.text])).toEqual([
    [1, "b"],
    [2, "c"],
  ]);
  expect(more[0]).toBe(first[1]);
  expect(maker.lines(["x"], 0).map((it) => it.text)).toEqual(["x"]);
});

it("finds matches and evidence whatever stands around them", () => {
  const lines = new LineMaker().lines(["Alpha", "x error: bad y", "ALPHA"], 0);
  expect(matchesOf(lines, "alpha")).toEqual([0, 2]);
  expect(placeOf(lines, "error: bad")).toBe(1);
  expect(placeOf(lines, "missing")).toBe(-1);
  expect(partsOf("xAx", "a")).toEqual([
    { text: "x", hit: false },
    { text: "A", hit: true },
    { text: "x", hit: false },
  ]);
});
