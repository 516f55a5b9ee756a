import { expect, it } from "vitest";
import { fromText, toText } from "./field-schema";
import { bodyOf, capacityOf, changesBetween, commandLines, withChanges } from "./settings";

it("sends only what changed, and null for what is not set any more", () => {
  const changes = changesBetween({ a: 1, b: [1, 2], c: "x" }, { a: 1, b: [1, 3] });
  expect(bodyOf(changes)).toEqual({ b: [1, 3], c: null });
  expect(withChanges({ a: 1, b: 2 }, { a: null, c: 3 })).toEqual({ b: 2, c: 3 });
});

it("reads context and users from the command, the last of a flag", () => {
  expect(capacityOf(["llama-server", "--ctx-size", "8192", "-np", "4"])).toEqual({
    context: 8192,
    users: 4,
    shared: true,
  });
  expect(capacityOf(["vllm", "--max-model-len=2048", "--max-model-len", "4096"])).toEqual({
    context: 4096,
    users: null,
    shared: false,
  });
  expect(capacityOf(["llama-server", "--ctx-size", "0"])).toEqual({
    context: null,
    users: null,
    shared: true,
  });
});

it("marks the arguments that differ, and quotes what a shell would read otherwise", () => {
  const lines = commandLines(["run", "--a", "1", "--b", "x y"], ["run", "--a", "2", "--b", "x y"]);
  expect(lines).toEqual([
    { text: "run", changed: false },
    { text: "--a 1", changed: true },
    { text: "--b 'x y'", changed: false },
  ]);
});

it("reads values that are written as text, and says what it can't read", () => {
  expect(fromText("integers", "0, 2")).toEqual({ value: [0, 2] });
  expect(fromText("integers", "zero")).toBe("bad");
  expect(fromText("pairs", "A=1\nB=x=y")).toEqual({ value: { A: "1", B: "x=y" } });
  expect(fromText("pairs", "A")).toBe("bad");
  expect(fromText("json", "[1]")).toBe("bad");
  expect(fromText("json", "")).toEqual({ value: undefined });
  expect(toText("pairs", { A: "1", B: "x=y" })).toBe("A=1\nB=x=y");
});
