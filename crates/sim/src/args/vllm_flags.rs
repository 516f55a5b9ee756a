//! The flags of `vllm serve`, with the releases that know them.
//!
//! Presence was measured in the wheels 0.10.0 to 0.32.0; `since` and `until` name the first
//! measured release with and without the flag, or the exact release where it is known.

use super::{Flag, Value};
use crate::flavour::Version;
use Value::{Choice, Float, Int, Ints, Size, Switch, Text, Texts, Toggle};

const fn v(minor: u32, patch: u32) -> Version {
    Version(0, minor, patch)
}

const fn f(names: &'static [&'static str], value: Value) -> Flag {
    Flag::new(names, value)
}

const DTYPES: &[&str] = &["auto", "half", "float16", "bfloat16", "float", "float32"];
/// Cache types as printed by 0.32.0; see [`kv_cache_dtypes`] for older releases.
const KV_DTYPES: &[&str] = &[
    "auto",
    "bfloat16",
    "float16",
    "fp8",
    "fp8_ds_mla",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_per_token_head",
    "int4_per_token_head",
    "int8_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
    "nvfp4_ds_mla",
    "turboquant_3bit_nc",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_k8v4",
    "ultraquant_4bit",
];

/// The cache types a release takes: bfloat16 since 0.11, `fp8_ds_mla` since 0.12, float16 since
/// 0.19, the others since 0.20.
pub(crate) fn kv_cache_dtypes(version: Version) -> Vec<&'static str> {
    let since = |name: &str| match name {
        "auto" | "fp8" | "fp8_e4m3" | "fp8_e5m2" | "fp8_inc" => v(0, 0),
        "bfloat16" => v(11, 0),
        "fp8_ds_mla" => v(12, 0),
        "float16" => v(19, 0),
        _ => v(20, 0),
    };
    KV_DTYPES.iter().copied().filter(|name| since(name) <= version).collect()
}

/// The hash algorithms a release takes for prefix caching.
pub(crate) fn hash_algorithms(version: Version) -> &'static [&'static str] {
    if version < v(10, 2) {
        &["builtin", "sha256", "sha256_cbor_64bit"]
    } else if version < v(13, 0) {
        &["sha256", "sha256_cbor"]
    } else {
        &["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]
    }
}

/// The block sizes a release takes; `None` means any positive number.
pub(crate) fn block_sizes(version: Version) -> Option<&'static [&'static str]> {
    if version < v(12, 0) {
        Some(&["1", "8", "16", "32", "64", "128"])
    } else if version < v(19, 0) {
        Some(&["1", "8", "16", "32", "64", "128", "256"])
    } else {
        None
    }
}

/// The load formats a release takes.
pub(crate) fn load_formats(version: Version) -> Option<&'static [&'static str]> {
    const OLD: &[&str] = &["auto", "safetensors", "pt", "dummy", "gguf", "bitsandbytes", "runai_streamer"];
    // Later releases load formats from plug-ins and check the word only when loading.
    (version < v(24, 0)).then_some(OLD)
}

pub(crate) const FLAGS: &[Flag] = &[
    f(&["--host"], Text),
    f(&["--port"], Int),
    f(&["--uvicorn-log-level"], Choice(&["critical", "debug", "error", "info", "trace", "warning"])),
    f(&["--disable-uvicorn-access-log"], Toggle),
    f(&["--disable-access-log-for-endpoints"], Text).since(v(16, 0)),
    f(&["--allowed-origins"], Text),
    f(&["--api-key"], Texts),
    f(&["--ssl-keyfile"], Text),
    f(&["--ssl-certfile"], Text),
    f(&["--root-path"], Text),
    f(&["--enable-request-id-headers"], Toggle),
    f(&["--enable-server-load-tracking"], Toggle),
    f(&["--enable-log-requests"], Toggle).since(v(10, 2)),
    f(&["--disable-log-requests"], Toggle).until(v(17, 0)),
    f(&["--disable-log-stats"], Toggle),
    f(&["--max-log-len"], Int),
    f(&["--shutdown-timeout"], Int).since(v(18, 0)),
    f(&["--max-num-queued-reqs"], Int).since(v(29, 0)),
    f(&["--model"], Text),
    f(&["--served-model-name"], Texts),
    f(&["--task"], Choice(&["auto", "generate", "embedding", "embed", "classify", "score", "reward"]))
        .until(v(13, 0)),
    f(&["--runner"], Choice(&["auto", "draft", "generate", "pooling"])).since(v(10, 2)),
    f(&["--convert"], Choice(&["auto", "classify", "embed", "none", "reward"])).since(v(10, 2)),
    f(&["--tokenizer"], Text),
    f(&["--tokenizer-mode"], Text),
    f(&["--revision"], Text),
    f(&["--hf-config-path"], Text),
    f(&["--hf-overrides"], Text),
    f(&["--hf-token"], Text),
    f(&["--trust-remote-code"], Toggle),
    f(&["--download-dir"], Text),
    f(&["--load-format"], Text),
    f(&["--dtype"], Choice(DTYPES)),
    f(&["--quantization", "-q"], Text),
    f(&["--allow-deprecated-quantization"], Toggle).since(v(14, 0)),
    f(&["--seed"], Int),
    f(&["--generation-config"], Text),
    f(&["--override-generation-config"], Text),
    f(&["--enable-sleep-mode"], Toggle),
    f(&["--max-model-len"], Size),
    f(&["--rope-scaling"], Text).until(v(11, 2)),
    f(&["--rope-theta"], Float).until(v(11, 2)),
    f(&["--max-seq-len-to-capture"], Int).until(v(11, 0)),
    f(&["--enforce-eager"], Toggle),
    f(&["--cuda-graph-sizes"], Ints).until(v(13, 0)),
    f(&["--cudagraph-capture-sizes"], Ints).since(v(11, 1)),
    f(&["--max-cudagraph-capture-size"], Int).since(v(11, 1)),
    f(&["--compilation-config", "-cc"], Text),
    f(&["--optimization-level"], Text).since(v(12, 0)),
    f(&["--performance-mode"], Text).since(v(17, 0)),
    f(&["--attention-backend"], Text).since(v(13, 0)),
    f(&["--language-model-only"], Toggle).since(v(17, 0)),
    f(&["--tensor-parallel-size", "-tp"], Int),
    f(&["--pipeline-parallel-size", "-pp"], Int),
    f(&["--data-parallel-size", "-dp"], Int),
    f(&["--enable-expert-parallel"], Toggle),
    f(&["--distributed-executor-backend"], Text),
    f(&["--disable-custom-all-reduce"], Toggle),
    f(&["--gpu-memory-utilization"], Float),
    f(&["--device-memory-utilization"], Float).since(v(31, 0)),
    f(&["--kv-cache-memory-bytes"], Size).since(v(10, 2)),
    f(&["--kv-cache-dtype"], Text),
    f(&["--block-size"], Int),
    f(&["--swap-space"], Float).until(v(18, 0)),
    f(&["--kv-offloading-size"], Float).since(v(11, 1)),
    f(&["--kv-offloading-backend"], Choice(&["native", "lmcache"])).since(v(11, 1)),
    f(&["--cpu-offload-gb"], Float),
    f(&["--offload-backend"], Text).since(v(17, 0)),
    f(&["--enable-prefix-caching"], Toggle),
    f(&["--prefix-caching-hash-algo"], Text),
    f(&["--num-lookahead-slots"], Int).until(v(12, 0)),
    f(&["--max-num-seqs"], Int),
    f(&["--max-num-batched-tokens"], Size),
    f(&["--enable-chunked-prefill"], Toggle),
    f(&["--async-scheduling"], Toggle),
    f(&["--scheduling-policy"], Choice(&["fcfs", "priority"])),
    f(&["--guided-decoding-backend"], Text).until(v(12, 0)),
    f(&["--override-pooler-config"], Text).until(v(12, 0)),
    f(&["--pooler-config"], Text).since(v(11, 0)),
    f(&["--spec-model"], Text).since(v(22, 0)),
    f(&["--speculative-config", "-sc"], Text),
    f(&["--enable-lora"], Toggle),
    f(&["--lora-modules"], Texts),
    f(&["--max-loras"], Int),
    f(&["--max-lora-rank"], Int),
    f(&["--chat-template"], Text),
    f(&["--chat-template-content-format"], Choice(&["auto", "openai", "string"])),
    f(&["--response-role"], Text),
    f(&["--enable-auto-tool-choice"], Toggle),
    f(&["--tool-call-parser"], Text),
    f(&["--reasoning-parser"], Text),
    f(&["--enable-prompt-tokens-details"], Toggle),
    f(&["--limit-mm-per-prompt"], Text),
    f(&["--help", "-h"], Switch),
    f(&["--version", "-v"], Switch),
];
