// A machine with two GPUs, as far as the gateway can tell: an inventory says what a driver would, and a program that calls itself
// llama-server has the gateway reckon with memory, which it does not for the simulator.
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { startGateway, until } from "./harness.mjs";
import { startHub } from "./hub.mjs";

export const GPU = { name: "NVIDIA L4", vendor: "nvidia", mem_total_mb: 24_000, compute_capability: "8.9" };

/** The GPUs of the machine: the first is used by the engine of `holder` and by somebody else, the second by somebody else. */
function gpus(holder) {
  const first = [{ pid: 4_000_000, mem_mb: 1536 }, ...(holder ? [{ pid: holder, mem_mb: 6144 }] : [])];
  return [
    { ...GPU, index: 0, mem_used_mb: holder ? 8000 : 1800, processes: first },
    { ...GPU, index: 1, mem_used_mb: 2048, processes: [{ pid: 4_000_001, mem_mb: 2048 }] },
  ];
}

/** A program that the gateway takes for llama-server, so that it reckons with memory. It runs the simulator, out of memory above 64 k. */
export function pretendServer(dir) {
  const path = join(dir, "llama-server");
  writeFileSync(
    path,
    `#!/bin/sh
case "$1" in
--version) echo 'version: 11434 (0123456)' >&2 ;;
*) exec '${resolve(process.env.GANTRY)}' engine-sim --flavour llamacpp --engine-version b11434 --sim-oom-above-context 65536 "$@" ;;
esac
`,
  );
  chmodSync(path, 0o755);
  return path;
}

/** The process of the engine that serves this name below the folder. */
function processOf(dir, name) {
  const words = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    } catch {
      return [];
    }
  };
  const is = (all) => all.includes("engine-sim") && all.includes(name) && all.some((it) => it.startsWith(dir));
  return Number(readdirSync("/proc").find((it) => /^\d+$/.test(it) && is(words(it))));
}

/** What the hub has. */
const REPOSITORY = "acme/chat-7b";
const CONFIG = {
  architectures: ["Qwen2ForCausalLM"], model_type: "qwen2", torch_dtype: "bfloat16", hidden_size: 3584, intermediate_size: 18_944,
  num_hidden_layers: 28, num_attention_heads: 28, num_key_value_heads: 4, vocab_size: 152_064, max_position_embeddings: 32_768,
};
const FILES = {
  "config.json": 700, "tokenizer.json": 7_000_000, "model-00001-of-00002.safetensors": 9_900_000_000,
  "model-00002-of-00002.safetensors": 5_300_000_000,
};

/** Starts a gateway with two GPUs and a hub, and a model called `holder` that holds a part of the first one. */
export async function startWithGpus() {
  const settings = {};
  const gateway = await startGateway({ settings });
  // The folder is known only now.
  const inventory = join(gateway.dir, "gpus.json");
  writeFileSync(inventory, JSON.stringify(gpus()));
  const hub = await startHub({ [REPOSITORY]: { config: CONFIG, files: FILES } });
  Object.assign(settings, { OFFLINE_MODE: "false", HUB_ENDPOINT: hub.url });
  Object.assign(settings, { GPU_INVENTORY_FILE: inventory, SECONDARY_ENGINE_COMMAND: pretendServer(gateway.dir) });
  await gateway.kill();
  await gateway.start();
  const llama = { layers: 24, width: 2048, context: 131_072 };
  writeGguf(join(gateway.models, "small.gguf"), { name: "small" });
  mkdirSync(join(gateway.models, "family"));
  writeGguf(join(gateway.models, "family/chat-1b-f32.gguf"), { name: "chat-1b", ...llama });
  writeGguf(join(gateway.models, "family/chat-huge-f32.gguf"), { name: "chat-huge", ...llama, layers: 200, width: 8192 });
  const api = await gateway.as();
  const holder = await api("POST", "/admin/models", {
    served_name: "holder", engine_type: "llamacpp", local_path: "small.gguf", context_size: 2048, selected_gpus: [0],
  });
  await api("POST", `/admin/models/${holder.id}/start`, {});
  await until("the start", async () => (await api("GET", `/admin/models/${holder.id}`)).state === "running");
  // What the driver would report of it, now that it has a process. The engine goes on meanwhile.
  writeFileSync(inventory, JSON.stringify(gpus(processOf(gateway.dir, "holder"))));
  await gateway.kill();
  await gateway.start();
  return { gateway, api: await gateway.as(), holder, hub: { ...hub, repository: REPOSITORY } };
}
