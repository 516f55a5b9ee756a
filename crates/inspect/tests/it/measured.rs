//! Tests the facts from which an estimate starts, for files of one architecture that differ.

use std::fs;

use gantry_domain::memory::{LlamacppSettings, Slots, VllmSettings, estimate_llamacpp, estimate_vllm};
use gantry_inspect::folder::{Base, Precision, measure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    build::{Gguf, text},
    fixtures::write_sparse,
};

const MIB: u64 = 1 << 20;

/// Returns the KV cache that llama-server takes for one slot of `context` tokens, in MiB.
fn cache_of_gguf(header: Gguf, context: u64) -> u64 {
    let dir = TempDir::new().unwrap();
    let (head, size) = header.finish();
    write_sparse(&dir.path().join("m.gguf"), &head, size);
    let facts = measure(&Base::open(dir.path()).unwrap(), "m.gguf", Precision::Half).unwrap().facts;
    let slots = Slots::Fixed { slots: 1, unified: false };
    let settings = LlamacppSettings { context: Some(context), slots, ..LlamacppSettings::default() };
    estimate_llamacpp(&facts, &settings).unwrap().kv_cache / MIB
}

/// Makes a model with latent attention and 8 heads of these sizes.
fn latent(architecture: &str, layers: u32, rank: u32, rotary: u32, heads: (u32, u32)) -> Gguf {
    let key = |suffix: &str| format!("{architecture}.{suffix}");
    let header = Gguf::new()
        .str("general.architecture", architecture)
        .u32(&key("block_count"), layers)
        .u32(&key("context_length"), 163_840)
        .u32(&key("embedding_length"), 256)
        .u32(&key("feed_forward_length"), 256)
        .u32(&key("attention.head_count"), 8)
        .u32(&key("attention.key_length"), heads.0)
        .u32(&key("attention.value_length"), heads.1)
        .u32(&key("attention.kv_lora_rank"), rank)
        .u32(&key("rope.dimension_count"), rotary)
        .str("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &["<s>", "</s>"])
        .tensor("token_embd.weight", &[256, 2], 1, 1024);
    (0..layers).fold(header, |it, layer| it.tensor(&format!("blk.{layer}.attn_norm.weight"), &[256], 0, 1024))
}

/// The expected values are what llama-server b11434 printed for such files.
#[test]
fn heads_are_cached_unless_the_file_was_converted_for_latent_attention() {
    assert_eq!(cache_of_gguf(latent("deepseek2", 27, 512, 64, (192, 128)), 8192), 1080);
    assert_eq!(cache_of_gguf(latent("minicpm3", 62, 256, 32, (96, 64)), 16_384), 2480);
    let converted = latent("deepseek2", 27, 512, 64, (576, 512))
        .u32("deepseek2.attention.head_count_kv", 1)
        .u32("deepseek2.attention.key_length_mla", 192)
        .u32("deepseek2.attention.value_length_mla", 128);
    assert_eq!(cache_of_gguf(converted, 8192), 243);
}

/// Returns the bytes that vLLM caches for 1024 tokens of a checkpoint with two layers.
fn cache_of_checkpoint(config: &Value) -> u64 {
    let dir = TempDir::new().unwrap();
    let mut all = json!({
        "num_hidden_layers": 2, "hidden_size": 2560, "num_attention_heads": 40, "num_key_value_heads": 40,
        "intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 4096, "kv_lora_rank": 256,
        "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64,
    });
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    fs::write(dir.path().join("config.json"), all.to_string()).unwrap();
    let tensor = |name: &str, at: u64| {
        (name.to_owned(), json!({ "dtype": "BF16", "shape": [512], "data_offsets": [at, at + 1024] }))
    };
    let names = ["model.embed_tokens.weight", "model.layers.0.x.weight", "model.layers.1.x.weight"];
    let header: serde_json::Map<String, Value> =
        names.iter().enumerate().map(|(n, name)| tensor(name, n as u64 * 1024)).collect();
    let head = text(&Value::Object(header).to_string());
    write_sparse(&dir.path().join("model.safetensors"), &head, head.len() as u64 + 3 * 1024);
    let facts = measure(&Base::open(dir.path()).unwrap(), ".", Precision::Half).unwrap().facts;
    // Without GPUs it takes as much as this beside what one request needs.
    let settings =
        VllmSettings { max_model_len: Some(1024), kv_cache_memory: Some(1), ..VllmSettings::default() };
    estimate_vllm(&facts, &settings).unwrap().kv_cache
}

#[test]
fn vllm_caches_latent_entries_of_the_kinds_that_it_lists_only() {
    let (tokens, layers, bytes) = (1024, 2, 2);
    for kind in ["deepseek_v3", "kimi_k2"] {
        assert_eq!(cache_of_checkpoint(&json!({ "model_type": kind })), tokens * layers * (256 + 32) * bytes);
    }
    // 40 heads with a key of 64 + 32 and a value that is padded to it.
    let heads = tokens * layers * 40 * (96 + 96) * bytes;
    assert_eq!(cache_of_checkpoint(&json!({ "model_type": "minicpm3" })), heads);
}
