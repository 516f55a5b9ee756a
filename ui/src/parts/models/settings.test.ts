import { expect, it } from "vitest";
import type { ModelField } from "@/data/model-files";
import { fromText, toText } from "./field-schema";
import {
  bodyOf,
  capacityOf,
  changesBetween,
  commandLines,
  contextOf,
  tunedOf,
  withChanges,
} from "./settings";

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

it("gives a request no more context than the model was trained for, and says what it comes from", () => {
  type Given = Parameters<typeof contextOf>[0];
  const of = (command: string[], trained_for: number | null) =>
    contextOf({ command, vram_estimate: { trained_for, max_context_that_fits: 2048 } } as Given);
  const chosen = ["llama-server", "--ctx-size", "8192"];
  expect(of(chosen, 2048)).toEqual({ each: 2048, users: null, chosen: 8192, trained: 2048, fits: 2048 });
  expect(of(chosen, null).each).toBe(8192);
  expect(of([...chosen, "--parallel", "8"], 2048).each).toBe(1024);
  expect(of(["llama-server", "--ctx-size", "0"], 4096).each).toBe(4096);
  expect(of(["llama-server", "--ctx-size", "0", "--parallel", "4"], 4096).each).toBe(1024);
  expect(of(["vllm"], null).each).toBeNull();
});

it("offers no tuned context that is longer than the model's, or no better than the default", () => {
  const field = { name: "context_size", default: 8192, tuned: { value: 32_768 } } as unknown as ModelField;
  expect(tunedOf(field, {}, null)).toBe(32_768);
  expect(tunedOf(field, {}, 16_384)).toBe(16_384);
  expect(tunedOf(field, {}, 2048)).toBeUndefined();
  expect(tunedOf(field, { parallel_slots: 8 }, 2048)).toBe(16_384);
  expect(tunedOf({ ...field, name: "batch_size" }, {}, 2048)).toBe(32_768);
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
