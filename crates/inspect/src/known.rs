//! Architectures that the engines know. They only lead to warnings, because an engine image may be newer or older.
//!
//! `known/llamacpp.txt`: values of `general.architecture` in llama-server b11434.
//! `known/vllm.txt`: names that vLLM 0.32.0 registers (`vllm/model_executor/models/registry.py`).

use gantry_domain::engine::quantization;

const LLAMACPP: &str = include_str!("known/llamacpp.txt");
const VLLM: &str = include_str!("known/vllm.txt");

/// llama.cpp architectures that only encode (`src/llama-arch.cpp`; embedding models also say so by
/// `pooling_type`).
const ENCODERS: &[&str] = &[
    "bert",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "eurobert",
    "gemma-embedding",
    "llama-embed",
    "t5encoder",
];

/// Further values of `quant_method`, which earlier versions of vLLM accept.
const FORMER_QUANTIZATIONS: &[&str] = &["auto-round", "bitsandbytes"];

fn has(list: &str, name: &str) -> bool {
    list.lines().any(|it| it == name)
}

pub(crate) fn is_gguf_encoder(architecture: &str) -> bool {
    ENCODERS.contains(&architecture)
}

pub(crate) fn llamacpp_knows(architecture: &str) -> bool {
    has(LLAMACPP, architecture)
}

/// Whether vLLM registers the class, or the class of the same family from which it converts
/// (`ModelRegistry._normalize_arch`).
pub(crate) fn vllm_knows(architecture: &str) -> bool {
    if has(VLLM, architecture) {
        return true;
    }
    let suffixes =
        ["ForSequenceClassification", "ForTokenClassification", "EmbeddingModel", "RewardModel", "Model"];
    let stem = suffixes.into_iter().find_map(|it| architecture.strip_suffix(it));
    stem.filter(|it| !it.is_empty()).is_some_and(|stem| {
        ["ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model"]
            .into_iter()
            .any(|it| has(VLLM, &format!("{stem}{it}")))
    })
}

pub(crate) fn vllm_knows_quantization(method: &str) -> bool {
    quantization::VLLM.contains(&method) || FORMER_QUANTIZATIONS.contains(&method)
}
