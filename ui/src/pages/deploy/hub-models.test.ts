import { expect, it } from "vitest";
import { CHECKPOINT, chosenOf, modelsOf, settingsOfRepository } from "./hub-models";

type Repository = Parameters<typeof modelsOf>[0];
type Files = NonNullable<Repository["files"]>;

const gguf = (path: string, repo_id: string | null): Files["gguf"][number] => ({
  path,
  parts: 1,
  size_bytes: 3,
  quant_type: "Q4_0",
  repo_id,
});
const repository = (files: Partial<Files> | null) =>
  ({
    repo_id: "me/x",
    config: null,
    summary: { quantization: null },
    engine_recommendation: { recommended_engine: "llamacpp", task: null },
    files: files && { gguf: [], safetensors: [], projectors: [], ...files },
  }) as unknown as Repository;

it("offers a checkpoint as one choice, and each GGUF file as another", () => {
  const weights = [
    { path: "a.safetensors", size_bytes: 1 },
    { path: "b.safetensors", size_bytes: 2 },
  ];
  const models = modelsOf(repository({ safetensors: weights, gguf: [gguf("x.gguf", "me/x:Q4_0")] })) ?? [];
  expect(models.map((it) => [it.id, it.files, it.size, it.settings?.repo_id])).toEqual([
    [CHECKPOINT, 2, 3, "me/x"],
    ["x.gguf", 1, 3, "me/x:Q4_0"],
  ]);
  // Without a choice it is what the engine that the gateway recommends can serve.
  expect(chosenOf(models, undefined, "llamacpp")?.id).toBe("x.gguf");
  expect(chosenOf(models, undefined, "vllm")?.id).toBe(CHECKPOINT);
  expect(chosenOf(models, CHECKPOINT, "llamacpp")?.id).toBe(CHECKPOINT);
});

it("knows no size where the hub says one of no file, and chooses nothing that can't be named", () => {
  const models = modelsOf(
    repository({
      safetensors: [
        { path: "a.safetensors", size_bytes: 1 },
        { path: "b.safetensors", size_bytes: null },
      ],
    }),
  );
  expect(models?.[0]?.size).toBeNull();
  const twins = modelsOf(repository({ gguf: [gguf("a.gguf", null), gguf("b.gguf", null)] })) ?? [];
  expect(twins.map((it) => it.settings)).toEqual([null, null]);
  expect(chosenOf(twins, "a.gguf", "llamacpp")).toBeUndefined();
  expect(modelsOf(repository(null))).toBeUndefined();
});

it("takes a repository that the hub told nothing of for what its name says", () => {
  const engineOf = (repo: string) => settingsOfRepository(repo, undefined).engine_type;
  expect(["me/x-GGUF", "me/x-gguf:Q4_K_M", "me/x", "me/gguf-tools"].map(engineOf)).toEqual([
    "llamacpp",
    "llamacpp",
    "vllm",
    "vllm",
  ]);
});
