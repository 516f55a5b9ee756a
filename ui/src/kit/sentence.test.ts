import { expect, it } from "vitest";
import { sentence } from "./sentence";

it("makes a sentence of what the gateway writes", () => {
  expect(sentence("the engine ended")).toBe("The engine ended.");
  expect(sentence("stopped: somebody asked for it")).toBe("Stopped: somebody asked for it.");
  expect(sentence("out-of-memory, says the kernel!")).toBe("Out-of-memory, says the kernel!");
  expect(sentence("überlastet")).toBe("Überlastet.");
});

it.each([
  "bad-truncated.gguf: the file ends before its tensors do.",
  "llama.cpp can't be told which one is meant.",
  "vLLM does not load this quantisation.",
  "models/x is no folder.",
  "context_size is too large.",
  "`served_name` is taken.",
  "7b is the size.",
])("leaves a name at the beginning as it is: %s", (text) => {
  expect(sentence(text)).toBe(text);
});
