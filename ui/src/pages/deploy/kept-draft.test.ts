import { beforeEach, expect, it } from "vitest";
import { draftOf } from "./draft";
import { forgetDraft, keepDraft, keptDraft } from "./kept-draft";

const first = draftOf({ engine_type: "llamacpp", task: "generate", local_path: "a.gguf" });

beforeEach(() => sessionStorage.clear());

it("gives back what was typed, at the same address only, until it is saved", () => {
  const typed = { ...first, served: "mine", settings: { ...first.settings, context_size: 4096 } };
  keepDraft("a", first, typed);
  expect(keptDraft("a", first)).toEqual(typed);
  expect(keptDraft("b", first)).toBeNull();
  forgetDraft("a");
  expect(keptDraft("a", first)).toBeNull();
});

it("writes no token, and nothing at all where nothing else was typed", () => {
  keepDraft("a", first, { ...first, token: "hf_secret" });
  expect(sessionStorage.length).toBe(0);
  keepDraft("a", first, { ...first, token: "hf_secret", served: "mine" });
  expect(JSON.stringify({ ...sessionStorage })).not.toContain("hf_secret");
  expect(keptDraft("a", first)?.token).toBe("");
});

it("writes no variable of the engine's environment, where tokens are put", () => {
  const copied = { ...first, settings: { ...first.settings, extra_env: { HF_TOKEN: "hf_secret" } } };
  const typed = { ...copied, served: "mine", settings: { ...copied.settings, context_size: 4096 } };
  keepDraft("a", copied, typed);
  expect(JSON.stringify({ ...sessionStorage })).not.toContain("hf_secret");
  expect(keptDraft("a", copied)).toEqual(typed);
});

it("leaves alone what was kept for other settings, or in another form", () => {
  keepDraft("a", first, { ...first, served: "mine" });
  expect(keptDraft("a", draftOf({ engine_type: "vllm", local_path: "a.gguf" }))).toBeNull();
  sessionStorage.setItem("gantry.draft new a", JSON.stringify({ first, draft: { served: 1 } }));
  expect(keptDraft("a", first)).toBeNull();
  sessionStorage.setItem("gantry.draft new a", "{");
  expect(keptDraft("a", first)).toBeNull();
});
