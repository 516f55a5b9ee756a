import { expect, it } from "vitest";
import type { Schema } from "@/api/types";
import { partsOnGpu } from "./memory-bar";

const estimate = {
  weights_gb: 5,
  kv_cache_gb: 2,
  overhead_gb: 1,
  host_ram_gb: 0.5,
  per_gpu_gb: [7.5],
  layers_on_gpus: null,
} as Schema<"MemoryEstimate">;

it("divides what lies on a GPU so that the parts add up to it", () => {
  expect(partsOnGpu(estimate)).toEqual({ weights_gb: 4.5, kv_cache_gb: 2, overhead_gb: 1 });
});

it("does not divide where layers stay in RAM, as nobody says which parts these are", () => {
  expect(partsOnGpu({ ...estimate, layers_on_gpus: 12 })).toBeNull();
  expect(partsOnGpu({ ...estimate, host_ram_gb: 6 })).toBeNull();
});
