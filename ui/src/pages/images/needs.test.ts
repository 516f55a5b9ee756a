import { expect, it } from "vitest";
import type { Answer, Model } from "@/api/types";
import { missingOf, shownOf } from "./needs";

const image = (name: string, cached: boolean) => ({ image: name, cached, size_mb: null, created: null });
const images = (models: number[] = []): Answer<"getContainerImages"> => ({
  offline_mode: true,
  offline_ready: false,
  engines: { vllm: image("vllm", false), llamacpp: image("llama", false) },
  infrastructure: [],
  models: models.length > 0 ? [{ ...image("own", true), models }] : [],
  summary: { critical_images_cached: false, total_images_checked: 2, cached_count: 0 },
  recommendations: [],
});
const model = (id: number, archived = false) => ({ id, archived, engine_type: "llamacpp" }) as Model;

it("counts a model without an image of its own to its engine", () => {
  const shown = shownOf(images([1]), [model(1), model(2), model(3, true)]);
  expect(shown.engines.map((it) => it.models)).toEqual([[], [2]]);
  expect(shown.models.map((it) => it.models)).toEqual([[1]]);
});

it("misses only what a model needs, and all engines where there is no model", () => {
  expect(missingOf(shownOf(images([1]), [model(1)]))).toEqual([]);
  expect(missingOf(shownOf(images([1]), [model(1), model(2)]))).toEqual(["llama"]);
  expect(missingOf(shownOf(images(), []))).toEqual(["vllm", "llama"]);
});
