import { expect, it } from "vitest";
import type { Schema } from "@/api/types";
import { partsInRam } from "./memory-bar";

const estimate = {
  weights_gb: 5,
  kv_cache_gb: 2,
  overhead_gb: 1,
  gpu_parts: [
    { weights_gb: 2.5, kv_cache_gb: 1, overhead_gb: 0.5 },
    { weights_gb: 2, kv_cache_gb: 1, overhead_gb: 0.25 },
  ],
} as Schema<"MemoryEstimate">;

it("gives RAM what no GPU holds, part by part", () => {
  expect(partsInRam(estimate)).toEqual({ weights_gb: 0.5, kv_cache_gb: 0, overhead_gb: 0.25 });
});

it("gives RAM everything where there is no GPU", () => {
  expect(partsInRam({ ...estimate, gpu_parts: [] })).toEqual({
    weights_gb: 5,
    kv_cache_gb: 2,
    overhead_gb: 1,
  });
});
