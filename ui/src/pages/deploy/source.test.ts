import { expect, it } from "vitest";
import { parseSource } from "./source";

const read = (text: string) => parseSource(text, "/srv/models", ["qwen", "user/model"]);

it("takes a path, a folder, a repository, or the address of its page", () => {
  expect(read("qwen")).toEqual({ kind: "path", path: "qwen" });
  expect(read("qwen/q4.gguf")).toEqual({ kind: "path", path: "qwen/q4.gguf" });
  expect(read("/srv/models/a b/c")).toEqual({ kind: "path", path: "a b/c" });
  expect(read("./new")).toEqual({ kind: "path", path: "new" });
  expect(read("Qwen/Qwen3-8B")).toEqual({ kind: "hub", repo: "Qwen/Qwen3-8B" });
  expect(read("https://huggingface.co/Qwen/Qwen3-8B/tree/main")).toEqual({
    kind: "hub",
    repo: "Qwen/Qwen3-8B",
  });
});

it("takes what the models folder has before it thinks of the hub", () => {
  expect(read("user/model")).toEqual({ kind: "path", path: "user/model" });
  expect(read("")).toEqual({ kind: "none" });
  expect(read("some words")).toEqual({ kind: "none" });
});
