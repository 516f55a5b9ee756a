//! Finds tensors that one layer lacks and the others have.

use std::collections::{BTreeMap, BTreeSet};

use super::TensorInfo;

/// Architectures whose layers all hold the same tensors. In other architectures a difference is not a fault.
const UNIFORM: &[&str] = &[
    "bert",
    "command-r",
    "exaone",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt2",
    "granite",
    "internlm2",
    "llama",
    "mistral3",
    "nomic-bert",
    "olmo2",
    "phi2",
    "phi3",
    "qwen2",
    "qwen2vl",
    "qwen3",
    "qwen3moe",
    "qwen3vl",
    "smollm3",
    "stablelm",
    "starcoder2",
];
/// Matrices that no layer of these architectures may lack if the others have them. Biases and some norms may be left
/// out.
const VITAL: &[&str] =
    &["attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "attn_norm", "ffn_gate", "ffn_up", "ffn_down"];
/// Most names in the result.
const REPORTED: usize = 5;

/// Returns tensors that are missing from some of `blocks` layers, as far as that can be determined without the engine.
/// Takes the tensors of all parts of a split model.
pub fn missing_block_tensors<'a>(
    architecture: &str,
    blocks: u64,
    tensors: impl Iterator<Item = &'a TensorInfo>,
) -> Vec<String> {
    if !UNIFORM.contains(&architecture) {
        return Vec::new();
    }
    let mut by_block: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for tensor in tensors {
        let Some(block) = tensor.block().filter(|it| *it < blocks) else { continue };
        let suffix = tensor.name.splitn(3, '.').nth(2).unwrap_or_default();
        by_block.entry(block).or_default().insert(suffix);
    }
    let all: BTreeSet<&str> = by_block.values().flatten().copied().collect();
    let missing = by_block.iter().flat_map(|(block, has)| {
        all.iter().filter(|it| !has.contains(*it)).map(move |it| format!("blk.{block}.{it}"))
    });
    missing.take(REPORTED).collect()
}

/// Whether llama.cpp refuses a model that lacks `tensor`, one of those that [`missing_block_tensors`] returned
/// (llama.cpp `src/llama-model.cpp`, `create_tensor`: "tensor … not found").
pub fn is_vital(tensor: &str) -> bool {
    let name = tensor.splitn(3, '.').nth(2).and_then(|it| it.strip_suffix(".weight"));
    name.is_some_and(|it| VITAL.contains(&it))
}
