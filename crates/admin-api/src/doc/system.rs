//! The answers of the readers of model files.

use serde_json::Value;

use super::schema::{count, described, flag, list, map, named, nullable, number, object, one_of, text};

/// Answers of `inspect-folder` and `hub-config`.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn folders() -> Vec<(&'static str, Value)> {
    let counts = |names: &[&'static str]| names.iter().map(|it| (*it, nullable(count()))).collect::<Vec<_>>();
    let task = || one_of(&["generate", "embed", "rerank"]);
    let status = || one_of(&["ready", "incomplete", "invalid"]);
    let side = object([("path", text()), ("size_bytes", count()), ("base_model", nullable(text()))]);
    let metadata = [
        ("architecture", nullable(text())),
        ("file_type", text()),
        ("name", nullable(text())),
        ("gguf_version", count()),
    ]
    .into_iter()
    .chain(counts(&[
        "context_length",
        "embedding_length",
        "block_count",
        "attention_head_count",
        "attention_head_count_kv",
        "vocab_size",
        "sliding_window",
        "expert_count",
        "expert_used_count",
        "pooling_type",
    ]));
    let group = [
        ("quant_type", text()),
        ("files", list(text())),
        ("total_size_mb", described(number(), "MiB.")),
        ("is_multipart", flag()),
        ("status", status()),
        ("metadata", nullable(object(metadata))),
        ("path", text()),
        ("size_bytes", count()),
        ("expected_parts", count()),
        ("task", task()),
        ("chat_template", flag()),
        ("tokenizer", flag()),
        ("errors", list(text())),
        ("warnings", list(text())),
    ];
    let safetensors = [
        ("architecture", nullable(text())),
        ("model_type", nullable(text())),
        ("total_size_mb", described(number(), "MiB.")),
        ("file_count", count()),
        ("status", status()),
        ("path", text()),
        ("size_bytes", count()),
        ("missing_files", list(text())),
        ("dtype", nullable(text())),
        ("quantization", nullable(text())),
        ("tie_word_embeddings", flag()),
        ("needs_remote_code", flag()),
        ("multimodal", flag()),
        ("task", task()),
        ("chat_template", flag()),
        ("tokenizer", flag()),
        ("generation_defaults", map(number())),
        ("errors", list(text())),
        ("warnings", list(text())),
    ];
    let shape = [
        "context_length",
        "num_layers",
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "vocab_size",
    ];
    let more = [
        "head_dim",
        "intermediate_size",
        "sliding_window",
        "num_experts",
        "num_experts_per_token",
        "tensor_bytes",
        "parameter_count",
    ];
    let recommendation = object([
        ("recommended_engine", one_of(&["vllm", "llamacpp", "none"])),
        ("recommended_format", one_of(&["safetensors", "gguf", "pytorch", "none"])),
        ("reason", text()),
        ("has_multipart_gguf", flag()),
        ("has_safetensors", flag()),
        ("has_gguf", flag()),
        ("path", nullable(text())),
        ("task", nullable(task())),
        (
            "settings",
            described(nullable(map(text())), "What a create request takes for it, beside `served_name`."),
        ),
    ]);
    let validation = object([
        ("total_files", count()),
        ("valid_files", count()),
        ("invalid_files", count()),
        ("errors", list(text())),
    ]);
    let summary = [
        ("architecture", nullable(text())),
        ("model_type", nullable(text())),
        ("quantization", nullable(text())),
        ("task", nullable(task())),
    ];
    vec![
        (
            "Inspection",
            object([
                ("has_gguf", flag()),
                ("has_safetensors", flag()),
                (
                    "gguf_groups",
                    list(object(group.into_iter().chain(counts(&["tensor_bytes", "parameter_count"])))),
                ),
                (
                    "safetensor_info",
                    nullable(object(safetensors.into_iter().chain(counts(&shape)).chain(counts(&more)))),
                ),
                ("engine_recommendation", named("EngineRecommendation")),
                ("gguf_validation", validation),
                ("path", text()),
                ("mmproj_files", list(side.clone())),
                ("adapter_files", list(side)),
                ("warnings", list(text())),
            ]),
        ),
        ("EngineRecommendation", recommendation),
        ("HubSummary", object(summary.into_iter().chain(counts(&shape)))),
    ]
}
