//! Tests of hub checkpoints: the fixtures, and the ways in which published configurations differ.

use std::fs;

use gantry_inspect::{
    TaskHint,
    folder::{self, Base, SafetensorInfo, Status},
    gguf::PerLayer,
    hf::{self, AttentionKind, HfConfig, HfFolder},
};
use serde_json::json;
use tempfile::TempDir;

use crate::fixtures;

fn info(dir: &TempDir, rel: &str) -> SafetensorInfo {
    folder::inspect(dir.path(), rel).unwrap().safetensor_info.unwrap()
}

fn read(dir: &TempDir, rel: &str) -> HfFolder {
    hf::read_folder(&Base::open(dir.path()).unwrap(), rel).unwrap()
}

/// Makes a folder with these files; `*.safetensors` get the header of one tensor of eight bytes, named after the file.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if name.ends_with(".safetensors") && content.is_empty() {
            fs::write(path, shard(&[*name])).unwrap();
        } else {
            fs::write(path, content).unwrap();
        }
    }
    dir
}

/// A file with tensors of eight bytes of these names.
fn shard(names: &[&str]) -> Vec<u8> {
    let tensor = |(n, name): (usize, &&str)| {
        let it = json!({"dtype": "F32", "shape": [2], "data_offsets": [n * 8, n * 8 + 8]});
        ((*name).to_owned(), it)
    };
    let header = serde_json::Value::Object(names.iter().enumerate().map(tensor).collect()).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; names.len() * 8]].concat()
}

const LLAMA: &str = r#"{"architectures":["LlamaForCausalLM"],"model_type":"llama"}"#;

#[test]
fn good_checkpoints_read_as_they_were_made() {
    let dir = fixtures::all();
    let chat = info(&dir, "hf/tiny-llama-chat");
    assert_eq!(chat.status, Status::Ready);
    assert_eq!(
        (chat.architecture.as_deref(), chat.model_type.as_deref()),
        (Some("LlamaForCausalLM"), Some("llama"))
    );
    assert_eq!((chat.context_length, chat.num_layers, chat.hidden_size), (Some(2048), Some(2), Some(64)));
    assert_eq!(
        (chat.num_attention_heads, chat.num_key_value_heads, chat.head_dim),
        (Some(2), Some(1), Some(32))
    );
    assert_eq!((chat.vocab_size, chat.dtype.as_deref()), (Some(448), Some("bfloat16")));
    assert_eq!((chat.file_count, chat.size_bytes, chat.total_size_mb), (1, 264_952, 0.25));
    assert_eq!((chat.tensor_bytes, chat.parameter_count), (Some(262_784), Some(131_392)));
    assert!(chat.chat_template && chat.tokenizer && chat.warnings.is_empty(), "{:?}", chat.warnings);

    let base = info(&dir, "hf/tiny-llama-base");
    assert!(!base.chat_template && base.warnings[0].starts_with("no chat template"));
    let embed = info(&dir, "hf/tiny-bert-embed");
    assert_eq!((embed.task, embed.status, embed.context_length), (TaskHint::Embed, Status::Ready, Some(128)));
    let recommended = folder::inspect(dir.path(), "hf/tiny-bert-embed").unwrap().engine_recommendation;
    assert_eq!(recommended.reason, "An embedding checkpoint in safetensors: vLLM loads it directly.");
}

#[test]
fn every_broken_checkpoint_says_what_is_wrong() {
    let dir = fixtures::all();
    let truncated = info(&dir, "hf/bad-truncated-safetensors");
    assert_eq!(truncated.status, Status::Invalid);
    assert_eq!(
        truncated.errors,
        [
            "model.safetensors: the file ends before its tensors do: 264952 bytes are needed, it has 5000; the download \
          is incomplete"
        ]
    );
    let foreign = info(&dir, "hf/bad-unsupported-arch");
    assert_eq!(foreign.status, Status::Ready);
    assert!(foreign.warnings[0].contains("vLLM 0.32 does not know the architecture `FooBarForCausalLM`"));
    let silent = info(&dir, "hf/bad-no-tokenizer");
    assert!(silent.status == Status::Invalid && silent.errors[0].starts_with("no tokenizer"));
    let empty = folder::inspect(dir.path(), "hf/bad-no-weights").unwrap();
    assert!(empty.safetensor_info.is_none() && !empty.has_safetensors);
    assert_eq!(empty.engine_recommendation.recommended_engine, "none");
}

#[test]
fn missing_shards_are_named_with_and_without_an_index() {
    let index = r#"{"metadata":{"total_size":16},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}}"#;
    for files in [
        vec![
            ("config.json", LLAMA),
            ("model.safetensors.index.json", index),
            ("model-00001-of-00002.safetensors", ""),
        ],
        vec![("config.json", LLAMA), ("model-00001-of-00002.safetensors", "")],
    ] {
        let found = info(&folder(&files), "");
        assert_eq!(found.status, Status::Incomplete);
        assert_eq!(found.missing_files, ["model-00002-of-00002.safetensors"]);
        assert_eq!(found.errors[0], "model-00002-of-00002.safetensors: missing; the download is incomplete");
    }
    let all = folder(&[
        ("config.json", LLAMA),
        ("tokenizer.json", "{}"),
        ("model.safetensors.index.json", index),
        ("model-00001-of-00002.safetensors", ""),
        ("model-00002-of-00002.safetensors", ""),
        ("consolidated.safetensors", ""),
    ]);
    let found = info(&all, "");
    assert_eq!((found.status, found.file_count, found.tensor_bytes), (Status::Ready, 2, Some(16)));
}

#[test]
fn a_tensor_in_two_files_counts_once() {
    let dir = folder(&[("config.json", LLAMA), ("tokenizer.json", "{}"), ("chat_template.jinja", "x")]);
    let name = |n: u32| format!("model-0000{n}-of-00002.safetensors");
    fs::write(dir.path().join(name(1)), shard(&["a", "b"])).unwrap();
    fs::write(dir.path().join(name(2)), shard(&["b", "c"])).unwrap();
    let said =
        format!("{}: tensors that a file before it has, too, are counted once (1 in all files)", name(2));
    let cache = std::sync::Arc::new(gantry_inspect::Cache::default());
    // The second and the third look take the headers from the cache.
    for _ in 0..3 {
        let found = folder::inspect_cached(dir.path(), "", &cache).unwrap().safetensor_info.unwrap();
        assert_eq!((found.tensor_bytes, found.parameter_count), (Some(24), Some(6)));
        assert_eq!(found.warnings, std::slice::from_ref(&said));
        assert_eq!(found.status, Status::Ready);
    }
    // With other tensors in it, nothing is there twice.
    fs::write(dir.path().join(name(2)), shard(&["c", "d"])).unwrap();
    let found = folder::inspect_cached(dir.path(), "", &cache).unwrap().safetensor_info.unwrap();
    assert_eq!((found.tensor_bytes, found.warnings.len()), (Some(32), 0));
}

#[test]
fn an_index_can_not_name_files_elsewhere() {
    for name in ["../x.safetensors", "/etc/passwd", "..", "", "a/b.safetensors"] {
        let index = json!({"weight_map": {"a": name}}).to_string();
        let found = info(
            &folder(&[
                ("config.json", LLAMA),
                ("model.safetensors.index.json", &index),
                ("m.safetensors", ""),
            ]),
            "",
        );
        assert_eq!(found.status, Status::Invalid);
        assert!(found.errors[0].contains("it names a file that is not beside it"), "{:?}", found.errors);
    }
}

#[test]
fn pointers_and_unfinished_downloads_are_recognised() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let dir = folder(&[
        ("config.json", pointer),
        ("model.safetensors", pointer),
        (".cache/huggingface/download/model.abc.incomplete", "x"),
    ]);
    let found = info(&dir, "");
    assert_eq!(found.status, Status::Invalid);
    assert!(found.errors.iter().any(|it| it.starts_with("config.json: this is a git-lfs pointer")));
    assert!(found.errors.iter().any(|it| it.starts_with("model.safetensors: this is a git-lfs pointer")));
    assert!(found.warnings.iter().any(|it| it.starts_with("1 unfinished downloads")));
}

#[test]
fn the_layout_of_mistral_is_one_that_vllm_loads() {
    let files = [("params.json", "{}"), ("consolidated.safetensors", ""), ("tekken.json", "{}")];
    let found = folder::inspect(folder(&files).path(), "").unwrap();
    let shown = found.safetensor_info.unwrap();
    assert_eq!((shown.status, shown.errors), (Status::Ready, Vec::new()));
    assert!(shown.warnings.iter().any(|it| it.contains("Mistral's own layout")), "{:?}", shown.warnings);
    assert_eq!(found.engine_recommendation.recommended_engine, "vllm");
    // Other weights need a configuration.
    let other = folder(&[("params.json", "{}"), ("model.safetensors", ""), ("tekken.json", "{}")]);
    assert_eq!(
        info(&other, "").errors[0],
        "config.json: it is missing; the engine can't tell what model this is"
    );
}

#[test]
fn an_adapter_is_no_model() {
    let dir = folder(&[
        ("adapter_config.json", r#"{"base_model_name_or_path":"meta/Llama","r":16}"#),
        ("adapter_model.safetensors", ""),
    ]);
    let found = folder::inspect(dir.path(), "").unwrap();
    assert!(found.safetensor_info.is_none() && found.has_safetensors);
    assert_eq!(found.adapter_files[0].base_model.as_deref(), Some("meta/Llama"));
    assert_eq!(found.engine_recommendation.recommended_engine, "none");
    assert_eq!(read(&dir, "").adapter.unwrap().rank, Some(16));
}

#[test]
fn a_chat_template_is_found_wherever_it_is() {
    let with = |name, content| {
        read(&folder(&[("config.json", LLAMA), ("model.safetensors", ""), (name, content)]), "")
            .has_chat_template
    };
    assert!(with("chat_template.jinja", "x"));
    assert!(with("chat_templates/tool.jinja", "x"));
    assert!(with("tekken.json", "{}"));
    assert!(with("tokenizer_config.json", r#"{"added_tokens_decoder":{"0":{}},"chat_template":"{{x}}"}"#));
    assert!(with("tokenizer_config.json", r#"{"chat_template":[{"name":"default","template":"x"}]}"#));
    assert!(with("chat_template.json", r#"{"chat_template":"x"}"#));
    assert!(!with("tokenizer_config.json", r#"{"chat_template":null}"#));
    assert!(!with("tokenizer_config.json", r#"{"chat_template":""}"#));
    assert!(!with("tokenizer_config.json", r#"{"x":{"chat_template":"y"}}"#));
}

#[test]
fn context_length_is_derived_as_vllm_derives_it() {
    let length = |config| HfConfig::from_value(&config).context_length;
    assert_eq!(length(json!({"max_position_embeddings": 4096})), Some(4096));
    assert_eq!(length(json!({"n_positions": 1024})), Some(1024));
    let scaled =
        |kind: &str| json!({"max_position_embeddings": 4096, "rope_scaling": {"type": kind, "factor": 4.0}});
    assert_eq!(length(scaled("linear")), Some(16384));
    assert_eq!(length(scaled("dynamic")), Some(16384));
    assert_eq!(length(scaled("yarn")), Some(4096));
    assert_eq!(length(scaled("llama3")), Some(4096));
    let trained = |kind: &str, key: &str| {
        let rope = json!({"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 2048});
        json!({"max_position_embeddings": 2048, key: rope})
    };
    assert_eq!(length(trained("yarn", "rope_parameters")), Some(8192));
    assert_eq!(length(trained("yarn", "rope_scaling")), Some(8192));
    assert_eq!(length(trained("llama3", "rope_scaling")), Some(2048));
    assert_eq!(length(json!({})), None);
    // The tokenizer and sentence-transformers lower the context length.
    let dir = |name, content| {
        let config = r#"{"architectures":["BertModel"],"max_position_embeddings":512}"#;
        let dir = folder(&[("config.json", config), ("model.safetensors", ""), (name, content)]);
        read(&dir, "").config.unwrap().context_length
    };
    assert_eq!(dir("tokenizer_config.json", r#"{"model_max_length":256}"#), Some(256));
    assert_eq!(dir("tokenizer_config.json", r#"{"model_max_length":1e30}"#), Some(512));
    assert_eq!(dir("sentence_bert_config.json", r#"{"max_seq_length":128}"#), Some(128));
}

#[test]
fn attention_is_told_layer_by_layer() {
    use AttentionKind::{Full, Recurrent, Sliding};
    let attention = |config| HfConfig::from_value(&config).attention;
    assert_eq!(
        attention(
            json!({"num_hidden_layers": 2, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"]})
        ),
        [Sliding, Full]
    );
    assert_eq!(
        attention(json!({"num_hidden_layers": 3, "sliding_window": 128, "sliding_window_pattern": 3})),
        [Sliding, Sliding, Full]
    );
    assert_eq!(attention(json!({"num_hidden_layers": 2, "full_attention_interval": 2})), [Recurrent, Full]);
    assert_eq!(attention(json!({"num_hidden_layers": 1, "sliding_window": 128})), [Sliding]);
    let off = json!({"num_hidden_layers": 1, "sliding_window": 128, "use_sliding_window": false});
    assert_eq!(attention(off), [Full]);
    assert_eq!(attention(json!({"num_hidden_layers": 1u64 << 60})), []);
}

#[test]
fn heads_experts_and_the_language_part_are_found() {
    let config = HfConfig::from_value(&json!({
        "architectures": ["Gemma3ForConditionalGeneration"],
        "vision_config": {},
        "text_config": {"num_attention_heads": 8, "hidden_size": 2048.0, "num_hidden_layers": 4, "n_routed_experts": 64,
                        "num_experts_per_tok": 6, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "torch_dtype": "bfloat16"},
    }));
    assert_eq!((config.head_dim, config.num_key_value_heads), (Some(256), Some(PerLayer::All(8))));
    assert_eq!((config.num_experts, config.num_experts_per_token), (Some(64), Some(6)));
    assert_eq!((config.kv_lora_rank, config.qk_rope_head_dim), (Some(512), Some(64)));
    assert!(config.multimodal && config.dtype.as_deref() == Some("bfloat16"));
    let omni = HfConfig::from_value(&json!({
        "architectures": ["Qwen2_5OmniModel"],
        "thinker_config": {"audio_config": {}, "vision_config": {}, "text_config": {"num_hidden_layers": 28}},
    }));
    assert_eq!((omni.multimodal, omni.sees, omni.num_layers), (true, true, Some(28)));
    let heads = |config| HfConfig::from_value(&config).num_key_value_heads;
    assert_eq!(heads(json!({"n_head": 71, "multi_query": true})), Some(PerLayer::All(1)));
    assert_eq!(heads(json!({"num_attention_heads": 32, "multi_query_group_num": 2})), Some(PerLayer::All(2)));
    assert_eq!(heads(json!({"num_kv_heads": [4, 8]})), Some(PerLayer::Each(vec![4, 8])));
    assert_eq!(heads(json!({"num_attention_heads": 0, "hidden_size": 5})), Some(PerLayer::All(0)));
}

#[test]
fn the_task_comes_from_the_class_and_from_sentence_transformers() {
    let task = |class: &str, extra: &[(&str, &str)]| {
        let config = json!({"architectures": [class]}).to_string();
        let mut files = vec![("config.json", config.as_str()), ("model.safetensors", "")];
        files.extend(extra);
        read(&folder(&files), "").task.unwrap()
    };
    assert_eq!(task("LlamaForCausalLM", &[]), TaskHint::Generate);
    assert_eq!(task("BertModel", &[]), TaskHint::Embed);
    assert_eq!(task("Qwen3ForCausalLM", &[("modules.json", "[]")]), TaskHint::Embed);
    assert_eq!(task("XLMRobertaForSequenceClassification", &[]), TaskHint::Rerank);
    assert_eq!(task("ChatGLMModel", &[]), TaskHint::Generate);
    assert_eq!(task("GPT2LMHeadModel", &[]), TaskHint::Generate);
    assert_eq!(task("InternVLChatModel", &[]), TaskHint::Generate);
}

#[test]
fn quantisation_is_named_and_its_weights_are_counted_unpacked() {
    let quant = |config: serde_json::Value| {
        hf::read_config(config.to_string().as_bytes()).unwrap().1.unwrap().label()
    };
    let of = |inner: serde_json::Value| quant(json!({"quantization_config": inner}));
    assert_eq!(of(json!({"quant_method": "gptq", "bits": 4})), "gptq 4-bit");
    assert_eq!(of(json!({"quant_method": "awq", "w_bit": 4})), "awq 4-bit");
    assert_eq!(of(json!({"quant_method": "fp8", "weight_block_size": [128, 128]})), "fp8 8-bit");
    assert_eq!(of(json!({"quant_method": "bitsandbytes", "load_in_4bit": true})), "bitsandbytes 4-bit");
    assert_eq!(
        of(
            json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}})
        ),
        "compressed-tensors 8-bit"
    );
    let mlx = json!({"group_size": 64, "bits": 4});
    assert_eq!(quant(json!({"quantization": mlx})), "mlx 4-bit");
    assert_eq!(quant(json!({"quantization": mlx, "quantization_config": mlx})), "mlx 4-bit");
    assert_eq!(of(json!({"bits": 4})), "unknown 4-bit");

    let header = r#"{"l.qweight":{"dtype":"I32","shape":[8,16],"data_offsets":[0,512]},"l.scales":{"dtype":"F16","shape":[16],"data_offsets":[512,544]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 544]].concat();
    let dir = folder(&[("config.json", r#"{"quantization_config":{"quant_method":"gptq","bits":4}}"#)]);
    fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
    assert_eq!(read(&dir, "").weights.parameter_count, Some(8 * 16 * 8));
    let dir = folder(&[
        ("config.json", r#"{"quantization":{"group_size":64,"bits":4}}"#),
        ("model.safetensors", ""),
    ]);
    assert!(
        read(&dir, "").warnings.iter().any(|it| it.contains("vLLM does not load the quantisation `mlx`"))
    );
}

#[test]
fn a_quantisation_that_vllm_does_not_load_is_not_recommended() {
    for method in ["exl2", "exl3"] {
        let config = json!({
            "architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": method, "bits": 4},
        });
        let config = config.to_string();
        let files = [("config.json", config.as_str()), ("tokenizer.json", "{}"), ("model.safetensors", "")];
        let found = folder::inspect(folder(&files).path(), "").unwrap();
        let said = format!("config.json: vLLM does not load the quantisation `{method}`");
        assert!(found.warnings.contains(&said), "{:?}", found.warnings);
        let advice = found.engine_recommendation;
        assert_eq!(advice.recommended_engine, "none");
        assert!(advice.reason.contains("vLLM does not load this quantisation"), "{}", advice.reason);
    }
}

#[test]
fn a_tokenizer_that_is_empty_or_a_pointer_is_an_error() {
    let found = |content| {
        let files = [("config.json", LLAMA), ("model.safetensors", ""), ("tokenizer.json", content)];
        let it = read(&folder(&files), "");
        (it.has_tokenizer, it.errors.join(";"))
    };
    assert_eq!(found("{}"), (true, String::new()));
    let (has, said) = found("");
    assert!(!has && said.contains("tokenizer.json: it is empty"), "{said}");
    let (has, said) = found("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 17210000\n");
    assert!(!has && said.contains("git lfs pull"), "{said}");
}

#[test]
fn numbers_that_only_python_reads_and_files_of_a_mac_harm_no_checkpoint() {
    let config = LLAMA.replacen('{', "{\"time_step_limit\":[0.0, Infinity],\"x\":NaN,", 1);
    let files =
        [("config.json", config.as_str()), ("model.safetensors", ""), ("._model.safetensors", "Mac OS X")];
    let found = read(&folder(&files), "");
    assert_eq!(found.errors, [""; 0]);
    assert_eq!(found.weights.files.len(), 1);
    assert_eq!(found.config, read(&folder(&[("config.json", LLAMA), ("model.safetensors", "")]), "").config);
}

#[test]
fn a_damaged_or_hostile_configuration_is_an_error_that_names_it() {
    let errors = |config: &str| {
        read(&folder(&[("config.json", config), ("model.safetensors", "")]), "").errors.join(";")
    };
    assert!(errors("{").starts_with("config.json: it is not valid JSON"));
    assert_eq!(errors("[1]"), "config.json: it is not an object");
    assert_eq!(errors(&"[".repeat(1000)), "config.json: it nests deeper than 32 levels");
    assert!(errors(&format!("[{}0]", "0,".repeat(200_000))).contains("more than 100000 values"));
    assert!(errors(&format!("{{\"a\":\"{}\"}}", "x".repeat(300_000))).contains("a text of more than"));
    assert!(errors(&" ".repeat(3 << 20)).contains("it is larger than 2097152 bytes"));
    let none = read(&folder(&[("model.safetensors", "")]), "");
    assert!(none.errors[0].starts_with("config.json: it is missing"));
}
