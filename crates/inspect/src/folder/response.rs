//! The answer of `GET /admin/models/inspect-folder`.
//!
//! Field names and types: `Inspect-folder response` of the gateway specification. In every object, fields that are not
//! in the specification come after those that are. Sizes named `_mb` are MiB with two decimals.

use std::collections::BTreeMap;

use gantry_domain::{
    schema::{self, Components, Shape, map, nullable, one_of, text},
    view,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Concern, TaskHint};

view! {
    /// What a folder holds, and what to do with it.
    #[derive(Debug, Clone)]
    pub struct Inspection: "Inspection" {
        pub has_gguf: bool,
        pub has_safetensors: bool,
        /// Models that could be served; usable ones first, then by size, the largest first.
        pub gguf_groups: Vec<GgufGroup>,
        /// `null` without safetensors files.
        pub safetensor_info: Option<SafetensorInfo>,
        pub engine_recommendation: EngineRecommendation,
        pub gguf_validation: GgufValidation,

        /// Path of the inspected folder, relative to the models directory.
        pub path: String,
        /// GGUF files that go beside a model: vision and audio encoders.
        pub mmproj_files: Vec<SideFile>,
        /// `LoRA` adapters: GGUF files and folders.
        pub adapter_files: Vec<SideFile>,
        /// What may go wrong, as sentences that name the file.
        pub warnings: Vec<String>,
    }
}

view! {
    /// One GGUF model: a file, or all files of a split one.
    #[derive(Debug, Clone)]
    pub struct GgufGroup {
        /// Name of the quantisation, as in `Q4_K_M`; `unknown` if nothing shows it.
        pub quant_type: String,
        /// Paths relative to the inspected folder, in the order of the parts.
        pub files: Vec<String>,
        /// MiB.
        pub total_size_mb: f64,
        pub is_multipart: bool,
        pub status: Status,
        /// `null` if the first file's header can't be read.
        pub metadata: Option<GgufMetadata>,

        /// The file to start the engine with, relative to the models directory.
        pub path: String,
        pub size_bytes: u64,
        /// Number of parts according to the file names; 1 for a single file.
        pub expected_parts: u64,
        /// Size of the weights, without headers and padding.
        pub tensor_bytes: Option<u64>,
        pub parameter_count: Option<u64>,
        pub task: TaskHint,
        pub chat_template: bool,
        pub tokenizer: bool,
        /// Why it is not `ready`.
        pub errors: Vec<String>,
        pub warnings: Vec<String>,
        /// The warnings with their subjects.
        pub concerns: Vec<Concern> => hidden,
        /// Whether some of `errors` only say that this gateway did not read a header; an engine may still read it.
        pub unread: bool => hidden,
    }
}

/// Whether an engine can load it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ready,
    /// A file is missing.
    Incomplete,
    /// A file is damaged, or no engine supports it.
    Invalid,
}

impl Status {
    const ALL: [Self; 3] = [Self::Ready, Self::Incomplete, Self::Invalid];
}

impl Shape for Status {
    fn schema(_: &mut Components) -> Value {
        schema::words(&Self::ALL)
    }
}

view! {
    /// Facts from the file's header. Numbers that the file does not state are `null`.
    #[derive(Debug, Clone)]
    pub struct GgufMetadata {
        pub architecture: Option<String>,
        pub context_length: Option<u64>,
        pub embedding_length: Option<u64>,
        pub block_count: Option<u64>,
        /// The largest number of all layers.
        pub attention_head_count: Option<u64>,
        /// The largest number of all layers.
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
}

view! {
    /// A hub checkpoint.
    #[derive(Debug, Clone)]
    pub struct SafetensorInfo {
        pub architecture: Option<String>,
        pub model_type: Option<String>,
        /// MiB.
        pub total_size_mb: f64,
        /// Number of files that are there.
        pub file_count: usize,
        pub context_length: Option<u64>,
        pub num_layers: Option<u64>,
        pub hidden_size: Option<u64>,
        pub num_attention_heads: Option<u64>,
        pub vocab_size: Option<u64>,

        pub status: Status,
        /// The checkpoint's folder, relative to the models directory, as `local_path` takes it.
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
        /// Quantisation, as in `gptq 4-bit`.
        pub quantization: Option<String>,
        pub tensor_bytes: Option<u64>,
        pub parameter_count: Option<u64>,
        pub tie_word_embeddings: bool,
        pub needs_remote_code: bool,
        pub multimodal: bool,
        pub task: TaskHint,
        pub chat_template: bool,
        pub tokenizer: bool,
        /// Numbers from `generation_config.json`.
        pub generation_defaults: BTreeMap<String, f64>,
        pub errors: Vec<String>,
        pub warnings: Vec<String>,
    }
}

view! {
    #[derive(Debug, Clone)]
    pub struct EngineRecommendation: "EngineRecommendation" {
        pub recommended_engine: String as one_of(&["vllm", "llamacpp", "none"]),
        pub recommended_format: String as one_of(&["safetensors", "gguf", "pytorch", "none"]),
        pub reason: String,
        pub has_multipart_gguf: bool,
        pub has_safetensors: bool,
        pub has_gguf: bool,

        /// The value to use for `local_path`.
        pub path: Option<String>,
        pub task: Option<TaskHint>,
        /// The fields of a create request for it, except `served_name`; `null` if nothing is recommended, and for a
        /// repository of the hub.
        pub settings: Option<Map<String, Value>> as nullable(map(text())),
    }
}

view! {
    /// Every GGUF file that was found, whatever its purpose.
    #[derive(Debug, Clone, Default)]
    pub struct GgufValidation {
        pub total_files: usize,
        pub valid_files: usize,
        pub invalid_files: usize,
        /// Sentences that begin with the file's name.
        pub errors: Vec<String>,
    }
}

view! {
    /// A file that is not a model by itself.
    #[derive(Debug, Clone)]
    pub struct SideFile {
        /// Path relative to the models directory.
        pub path: String,
        pub size_bytes: u64,
        /// The model that it was made for, if the file says so.
        pub base_model: Option<String>,
    }
}

/// Returns bytes as MiB with two decimals.
pub(super) fn mib(bytes: u64) -> f64 {
    (bytes as f64 / 1_048_576.0 * 100.0).round() / 100.0
}
