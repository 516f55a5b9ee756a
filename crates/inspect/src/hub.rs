//! Reads what a hub says about a repository that was not fetched: its `config.json`, and what its files suggest.

mod files;

use gantry_domain::view;
use serde_json::Value;

use crate::{
    TaskHint,
    folder::EngineRecommendation,
    hf::{self, HfConfig},
    json::{self, JsonError, Limits},
    known,
};
pub use files::{HubFile, HubFiles, HubGguf};

/// A `config.json` and the facts in it.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// The file's contents, which are a JSON object.
    pub config: Value,
    pub summary: Summary,
}

view! {
    /// The numbers that a form needs; `null` if the file does not state them.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Summary: "HubSummary" {
        pub architecture: Option<String>,
        pub model_type: Option<String>,
        /// Context length in tokens.
        pub context_length: Option<u64>,
        pub num_layers: Option<u64>,
        pub hidden_size: Option<u64>,
        pub num_attention_heads: Option<u64>,
        /// The largest number of all layers.
        pub num_key_value_heads: Option<u64>,
        pub vocab_size: Option<u64>,
        /// Quantisation, as in `gptq 4-bit`.
        pub quantization: Option<String>,
        pub task: Option<TaskHint>,
    }
}

/// Reads a `config.json`.
///
/// # Errors
/// The text is not JSON, is not an object, or exceeds the limits.
pub fn read_config(bytes: &[u8]) -> Result<HubConfig, JsonError> {
    let config = json::read_value(bytes, Limits::CONFIG)?;
    if !config.is_object() {
        return Err(JsonError::Syntax("it is not an object".to_owned()));
    }
    let read = HfConfig::from_value(&config);
    let summary = Summary {
        task: read.architecture.is_some().then(|| read.task(false)),
        quantization: hf::quantization_of(&config).map(|it| it.label()),
        num_key_value_heads: read.num_key_value_heads.map(|it| it.max()),
        architecture: read.architecture,
        model_type: read.model_type,
        context_length: read.context_length,
        num_layers: read.num_layers,
        hidden_size: read.hidden_size,
        num_attention_heads: read.num_attention_heads,
        vocab_size: read.vocab_size,
    };
    Ok(HubConfig { config, summary })
}

/// Recommends an engine for a repository. Without a list of files, only the configuration decides.
pub fn recommend(summary: Option<&Summary>, files: Option<&HubFiles>) -> EngineRecommendation {
    let architecture = summary.and_then(|it| it.architecture.as_deref());
    let caution = caution(architecture);
    let (has_gguf, has_safetensors) =
        files.map_or((false, false), |it| (!it.gguf.is_empty(), !it.safetensors.is_empty()));
    let pytorch = files.is_some_and(|it| it.pytorch);
    let (engine, format, reason) = match (files.is_some(), has_safetensors, has_gguf) {
        (true, true, true) => (
            "vllm",
            "safetensors",
            format!(
                "Safetensors and GGUF files are both in the repository. vLLM serves the safetensors with the higher \
                 throughput but needs them to fit in GPU memory; choose llama.cpp for a CPU or a small GPU.{caution}"
            ),
        ),
        (true, true, false) => {
            ("vllm", "safetensors", format!("A checkpoint in safetensors: vLLM loads it directly.{caution}"))
        }
        (true, false, true) => {
            ("llamacpp", "gguf", "GGUF files only: llama.cpp serves them on GPU, CPU or both.".to_owned())
        }
        (true, false, false) if pytorch => (
            "vllm",
            "pytorch",
            format!(
                "PyTorch weights (pytorch_model*.bin) without safetensors: vLLM loads them, but they can run code on \
                 loading; prefer a repository with safetensors.{caution}"
            ),
        ),
        (true, false, false) => {
            ("none", "none", "There are no model files (.gguf or .safetensors) in the repository.".to_owned())
        }
        (false, ..) if architecture.is_some() => (
            "vllm",
            "safetensors",
            format!("A checkpoint by its configuration; the hub did not tell its files.{caution}"),
        ),
        (false, ..) => (
            "none",
            "none",
            "The configuration names no architecture, and the hub did not tell the files.".to_owned(),
        ),
    };
    EngineRecommendation {
        recommended_engine: engine.to_owned(),
        recommended_format: format.to_owned(),
        reason,
        has_multipart_gguf: files.is_some_and(|it| it.gguf.iter().any(|it| it.parts > 1)),
        has_safetensors,
        has_gguf,
        path: None,
        task: summary.and_then(|it| it.task),
        settings: None,
    }
}

/// Returns what to add to advice for vLLM, if it does not know the architecture.
fn caution(architecture: Option<&str>) -> String {
    match architecture {
        Some(name) if !known::vllm_knows(name) => {
            format!(
                " vLLM 0.32 does not know the architecture `{name}`: it may need a newer image or `trust_remote_code`."
            )
        }
        _ => String::new(),
    }
}
