//! Maps an argument of an engine's command line back to the model field that it came from.

use crate::model::{
    EngineKind, ModelConfig,
    fields::{self, Field},
};

/// Arguments that the field table does not name: short forms, and arguments that the engines' modules write themselves.
const ALIASES: &[(&str, &str)] = &[
    ("-c", "context_size"),
    ("-ngl", "ngl"),
    ("--gpu-layers", "ngl"),
    ("-b", "batch_size"),
    ("-ub", "ubatch_size"),
    ("-np", "parallel_slots"),
    ("-t", "threads"),
    ("--threads", "threads"),
    ("-ts", "tensor_split"),
    ("-sm", "split_mode"),
    ("-mg", "main_gpu"),
    ("-fa", "flash_attn"),
    ("--flash-attn", "flash_attn"),
    ("on", "flash_attn"),
    ("-ctk", "cache_type_k"),
    ("-ctv", "cache_type_v"),
    ("-ot", "override_tensor"),
    ("-ncmoe", "n_cpu_moe"),
    ("-fit", "fit_memory"),
    ("--mlock", "mlock"),
    ("--no-mmap", "no_mmap"),
    ("-lm", "load_mode"),
    ("--load-mode", "load_mode"),
    ("--numa", "numa"),
    ("-md", "draft_model_path"),
    ("--model-draft", "draft_model_path"),
    ("--spec-draft-model", "draft_model_path"),
    ("--spec-type", "draft_model_path"),
    ("--draft", "draft_n"),
    ("--draft-n", "draft_n"),
    ("-mm", "mmproj"),
    ("--mmproj", "mmproj"),
    ("--lora", "lora_adapters"),
    ("--lora-modules", "lora_adapters"),
    ("--enable-lora", "lora_adapters"),
    ("--chat-template", "chat_template"),
    ("--chat-template-file", "chat_template_file"),
    ("-dev", "device"),
    ("--device", "device"),
    ("--tokenizer", "tokenizer"),
    ("--hf-config-path", "hub_config_path"),
    ("--load-format", "gguf_weight_format"),
    ("--task", "task"),
    ("--runner", "task"),
    ("--convert", "task"),
    ("--embedding", "task"),
    ("--reranking", "pooling"),
    ("-m", "local_path"),
    ("--model", "local_path"),
    ("-hf", "repo_id"),
];

/// Fields that hold a path inside the models base directory, or a name that engines print like a path. The model's own
/// file comes last: the other fields are set more rarely, so a match with one of them says more.
const PATHS: &[&str] = &[
    "draft_model_path",
    "mmproj",
    "hub_config_path",
    "chat_template_file",
    "tokenizer",
    "repo_id",
    "local_path",
];

/// Returns the field of `engine` that became `flag`. An operator's own argument belongs to `extra_args`.
///
/// `flag` may carry a value (`--x=1`, `--x 1`), be the name of a setting in the engine's own words
/// (`gpu_memory_utilization`), or a variable (`LLAMA_ARG_CTX_SIZE`).
pub(super) fn field_of(flag: &str, engine: EngineKind, config: &ModelConfig) -> Option<&'static str> {
    let flag = flag.split([' ', '=', ',']).next()?.trim_matches(['`', '\'', '"']);
    if config.texts("extra_args").any(|it| it.split('=').next() == Some(flag)) {
        return Some("extra_args");
    }
    let variables = config.get("extra_env").and_then(serde_json::Value::as_object);
    if variables.is_some_and(|it| it.contains_key(flag)) {
        return Some("extra_env");
    }
    let long = match flag.strip_prefix("LLAMA_ARG_") {
        Some(name) => format!("--{}", name.to_ascii_lowercase().replace('_', "-")),
        None if flag.starts_with('-') => flag.replace('_', "-"),
        None => format!("--{}", flag.replace('_', "-")),
    };
    fields::all()
        .filter(|it| it.applies_to(engine))
        .find(|it| it.emit.flags().contains(&long.as_str()) || it.name == flag)
        .map(|it: &Field| it.name)
        .or_else(|| ALIASES.iter().find(|it| it.0 == flag || it.0 == long).map(|it| it.1))
}

/// Returns the fields of `engine` that set the arguments which it misses, as its refusal of a request says it: `… requires
/// --a and --b to be set`.
pub fn required_fields(message: &str, engine: EngineKind) -> Vec<&'static str> {
    let Some((_, required)) = message.split_once(" requires --") else { return Vec::new() };
    let flags = required.split_whitespace().enumerate().filter_map(|(at, word)| match at {
        0 => Some(word),
        _ => word.strip_prefix("--"),
    });
    let none = ModelConfig::default();
    flags.filter_map(|it| field_of(&format!("--{it}"), engine, &none)).collect()
}

/// Returns the field whose value is `path`, written as the container or the host sees it.
pub(super) fn field_of_path(path: &str, config: &ModelConfig) -> Option<&'static str> {
    let ends = |value: &str| {
        let value = value.trim_matches('/');
        path.strip_suffix(value).is_some_and(|it| it.is_empty() || it.ends_with('/'))
    };
    let lora = |it: &str| ends(it.split_once('=').map_or(it, |it| it.1));
    if config.texts("lora_adapters").any(lora) {
        return Some("lora_adapters");
    }
    PATHS.iter().find(|name| config.text(name).is_some_and(|it| !it.is_empty() && ends(it))).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use EngineKind::{Llamacpp, Vllm};

    fn config(value: Value) -> ModelConfig {
        let Value::Object(map) = value else { return ModelConfig::from_stored(Map::new()) };
        ModelConfig::from_stored(map)
    }

    #[test]
    fn flags_find_their_fields() {
        let own = config(
            json!({"extra_args": ["--frobnicate", "--lookup=3"], "extra_env": {"LLAMA_ARG_FIT": "x"}}),
        );
        let cases = [
            ("--swap-space 4", Vllm, Some("swap_space_gb")),
            ("--no-enforce-eager", Vllm, Some("enforce_eager")),
            ("gpu_memory_utilization", Vllm, Some("gpu_memory_utilization")),
            ("--cuda-graph-sizes 1 2", Vllm, Some("cuda_graph_sizes")),
            ("-ctk", Llamacpp, Some("cache_type_k")),
            ("--draft-max", Llamacpp, Some("draft_n")),
            ("LLAMA_ARG_CTX_SIZE", Llamacpp, Some("context_size")),
            ("LLAMA_ARG_FIT", Llamacpp, Some("extra_env")),
            ("--mlock", Llamacpp, Some("mlock")),
            ("--frobnicate", Llamacpp, Some("extra_args")),
            ("--lookup=5", Llamacpp, Some("extra_args")),
            ("--nothing-of-ours", Llamacpp, None),
        ];
        for (flag, engine, field) in cases {
            assert_eq!(field_of(flag, engine, &own), field, "{flag}");
        }
    }

    #[test]
    fn what_a_refusal_requires_is_named() {
        let auto = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
        assert_eq!(required_fields(auto, Vllm), ["enable_auto_tool_choice", "tool_call_parser"]);
        assert_eq!(required_fields("x requires --tool-call-parser to be set", Vllm), ["tool_call_parser"]);
        assert_eq!(required_fields("y requires --frobnicate", Vllm), [""; 0]);
        assert_eq!(required_fields("--tool-call-parser is a text of the client", Vllm), [""; 0]);
    }

    #[test]
    fn every_alias_is_a_field() {
        for (flag, field) in ALIASES {
            assert!(*field == "task" || fields::all().any(|it| it.name == *field), "{flag} → {field}");
        }
    }

    #[test]
    fn paths_find_their_fields() {
        let set = config(
            json!({"local_path": "a/m.gguf", "draft_model_path": "/models/d.gguf", "lora_adapters": ["x=l.gguf"]}),
        );
        assert_eq!(field_of_path("/models/a/m.gguf", &set), Some("local_path"));
        assert_eq!(field_of_path("/models/d.gguf", &set), Some("draft_model_path"));
        assert_eq!(field_of_path("/models/l.gguf", &set), Some("lora_adapters"));
        assert_eq!(field_of_path("/models/other.gguf", &set), None);
    }
}
