//! The answer of `GET /admin/models/inspect-folder`.
//!
//! Field names and types: `Inspect-folder response` of the gateway specification. What it does not have comes
//! after what it has, in every object. Sizes named `_mb` are MiB with two decimals.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Concern, TaskHint};

/// What is in a folder, and what to do with it.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    pub has_gguf: bool,
    pub has_safetensors: bool,
    /// Models that could be served, usable ones first, larger ones first.
    pub gguf_groups: Vec<GgufGroup>,
    /// `null` without safetensors files.
    pub safetensor_info: Option<SafetensorInfo>,
    pub engine_recommendation: EngineRecommendation,
    pub gguf_validation: GgufValidation,

    /// What was inspected, from the models directory.
    pub path: String,
    /// GGUF files that go beside a model: vision and audio encoders.
    pub mmproj_files: Vec<SideFile>,
    /// `LoRA` adapters, GGUF files and folders.
    pub adapter_files: Vec<SideFile>,
    /// What may go wrong, as sentences that name the file.
    pub warnings: Vec<String>,
}

/// One GGUF model: a file, or all files of a split one.
#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the answer's flags are independent facts")]
pub struct GgufGroup {
    /// As in `Q4_K_M`; `unknown` if nothing tells.
    pub quant_type: String,
    /// From the inspected folder, in order.
    pub files: Vec<String>,
    pub total_size_mb: f64,
    pub is_multipart: bool,
    pub status: Status,
    /// `null` if the first file's header can't be read.
    pub metadata: Option<GgufMetadata>,

    /// The file to start the engine with, from the models directory.
    pub path: String,
    pub size_bytes: u64,
    /// Parts that the names promise; 1 for a single file.
    pub expected_parts: u64,
    /// Of the weights, without headers and padding.
    pub tensor_bytes: Option<u64>,
    pub parameter_count: Option<u64>,
    pub task: TaskHint,
    pub chat_template: bool,
    pub tokenizer: bool,
    /// Why it is not `ready`.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
    /// The warnings by what they are about.
    #[serde(skip)]
    pub concerns: Vec<Concern>,
    /// Some of `errors` are that this gateway did not read a header, which an engine may.
    #[serde(skip)]
    pub unread: bool,
}

/// Whether an engine can load it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ready,
    /// A file is missing.
    Incomplete,
    /// A file is damaged, or no engine takes it.
    Invalid,
}

/// Numbers that the file does not give are `null`.
#[derive(Debug, Clone, Serialize)]
pub struct GgufMetadata {
    pub architecture: Option<String>,
    pub context_length: Option<u64>,
    pub embedding_length: Option<u64>,
    pub block_count: Option<u64>,
    /// The largest of all layers, as is the next.
    pub attention_head_count: Option<u64>,
    pub attention_head_count_kv: Option<u64>,
    pub vocab_size: Option<u64>,
    /// Name of the quantisation.
    pub file_type: String,

    pub name: Option<String>,
    pub gguf_version: u32,
    pub sliding_window: Option<u64>,
    pub expert_count: Option<u64>,
    pub expert_used_count: Option<u64>,
    pub pooling_type: Option<u64>,
}

/// A hub checkpoint.
#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the answer's flags are independent facts")]
pub struct SafetensorInfo {
    pub architecture: Option<String>,
    pub model_type: Option<String>,
    pub total_size_mb: f64,
    /// Files that are there.
    pub file_count: usize,
    pub context_length: Option<u64>,
    pub num_layers: Option<u64>,
    pub hidden_size: Option<u64>,
    pub num_attention_heads: Option<u64>,
    pub vocab_size: Option<u64>,

    pub status: Status,
    /// The checkpoint's folder, from the models directory: what `local_path` takes.
    pub path: String,
    pub size_bytes: u64,
    pub missing_files: Vec<String>,
    pub num_key_value_heads: Option<u64>,
    pub head_dim: Option<u64>,
    pub intermediate_size: Option<u64>,
    pub sliding_window: Option<u64>,
    pub num_experts: Option<u64>,
    pub num_experts_per_token: Option<u64>,
    pub dtype: Option<String>,
    /// As in `gptq 4-bit`.
    pub quantization: Option<String>,
    pub tensor_bytes: Option<u64>,
    pub parameter_count: Option<u64>,
    pub tie_word_embeddings: bool,
    pub needs_remote_code: bool,
    pub multimodal: bool,
    pub task: TaskHint,
    pub chat_template: bool,
    pub tokenizer: bool,
    /// Numbers of `generation_config.json`.
    pub generation_defaults: BTreeMap<String, f64>,
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct EngineRecommendation {
    /// `vllm`, `llamacpp` or `none`.
    pub recommended_engine: String,
    /// `safetensors`, `gguf`, `pytorch` or `none`.
    pub recommended_format: String,
    pub reason: String,
    pub has_multipart_gguf: bool,
    pub has_safetensors: bool,
    pub has_gguf: bool,

    /// What to give as `local_path`.
    pub path: Option<String>,
    pub task: Option<TaskHint>,
    /// What a create request takes for it, beside `served_name`; `null` where nothing is recommended, and for a
    /// repository of the hub.
    pub settings: Option<Map<String, Value>>,
}

/// Every GGUF file that was found, whatever it is for.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GgufValidation {
    pub total_files: usize,
    pub valid_files: usize,
    pub invalid_files: usize,
    /// Sentences that begin with the file.
    pub errors: Vec<String>,
}

/// A file that is no model by itself.
#[derive(Debug, Clone, Serialize)]
pub struct SideFile {
    /// From the models directory.
    pub path: String,
    pub size_bytes: u64,
    /// The model it was made for, if it says so.
    pub base_model: Option<String>,
}

/// Bytes as MiB with two decimals.
pub(super) fn mib(bytes: u64) -> f64 {
    (bytes as f64 / 1_048_576.0 * 100.0).round() / 100.0
}
