//! Tests of the command lines that engines get.

use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::*;
use crate::{
    ModelId, Role, Timestamp,
    model::{Blueprint, ModelDraft},
};

fn model(body: &Value) -> Model {
    let draft = ModelDraft::create(body.as_object().unwrap(), Role::Owner).unwrap();
    Model::new(ModelId(1), draft, Timestamp(0))
}

fn launch_at(body: &Value, version: &str) -> Launch {
    launch_on(body, version, &[], false)
}

#[test]
fn another_value_of_a_variable_makes_another_container() {
    let body = |value: &str| json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "extra_env": { "A": value } });
    assert!(same_container(&model(&body("1")), &model(&body("1"))));
    assert!(!same_container(&model(&body("1")), &model(&body("2"))));
}

#[test]
fn a_setting_that_only_older_engines_know_makes_another_container() {
    let with = |image: Option<&str>, quantization: Option<&str>| {
        model(&json!({
            "served_name": "m", "engine_type": "vllm", "local_path": "m", "engine_image": image,
            "quantization": quantization,
        }))
    };
    for image in [None, Some("registry.local/vllm:v0.20.0"), Some("registry.local/vllm@sha256:0")] {
        let changed = !same_container(&with(image, None), &with(image, Some("gguf")));
        assert!(changed, "{image:?}");
        assert!(same_container(&with(image, Some("gguf")), &with(image, Some("gguf"))), "{image:?}");
    }
}

#[test]
fn a_record_is_compared_with_the_settings_that_it_was_started_with() {
    let body = |edit: &Value| {
        let mut body = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "seed": 1 });
        body.as_object_mut().unwrap().extend(edit.as_object().unwrap().clone());
        body
    };
    let now = |edit: &Value, launched: Option<Blueprint>| Model { launched, ..model(&body(edit)) };
    let started = Blueprint::of(&model(&body(&json!({}))));
    assert!(is_as_launched(&now(&json!({}), None)), "never started");
    // As a version wrote it that gave engines no keys of their own.
    let mut text = serde_json::to_value(&started).unwrap();
    text.as_object_mut().unwrap().remove("own_key");
    let old: Blueprint = serde_json::from_value(text).unwrap();
    for launched in [started, old] {
        for (edit, same) in [
            (json!({}), true),
            // What the gateway does itself, and a value that is the default.
            (json!({ "request_timeout_sec": 5, "restart_policy": "on_failure" }), true),
            (json!({ "device": "auto" }), true),
            (json!({ "seed": 2 }), false),
            (json!({ "extra_env": { "A": "1" } }), false),
            (json!({ "task": "embed" }), false),
        ] {
            assert_eq!(is_as_launched(&now(&edit, Some(launched.clone()))), same, "{edit}");
        }
    }
}

#[test]
fn a_new_llama_server_gets_new_words_and_an_old_one_old_words() {
    let body = json!({"served_name": "tiny", "engine_type": "llamacpp", "local_path": "t/x.gguf"});
    assert_eq!(
        launch_at(&body, "b11434").args.join(" "),
        "--model /models/t/x.gguf --alias tiny --host 0.0.0.0 --port 8000 --metrics --no-webui --ctx-size 8192 \
         --batch-size 512 --threads 8 --load-mode mlock --numa isolate --flash-attn on"
    );
    assert_eq!(
        launch_at(&body, "b5000").args.join(" "),
        "--model /models/t/x.gguf --alias tiny --host 0.0.0.0 --port 8000 --metrics --no-webui --ctx-size 8192 \
         --batch-size 512 --threads 8 --mlock --no-mmap --numa isolate --flash-attn"
    );
}

fn llama_on_a_gpu(body: &Value, version: &str, offline: bool) -> Launch {
    launch_on(body, version, &[0], offline)
}

fn launch_on(body: &Value, version: &str, gpus: &[u32], offline: bool) -> Launch {
    let model = model(body);
    launch(
        &model,
        &LaunchContext {
            image: "image:tag",
            version: EngineVersion::parse(model.engine, version),
            host: &Host { cpus: 8, gpus: gpus.to_vec() },
            key: &"internal".into(),
            offline,
            fetches_media: false,
            hub_endpoint: None,
            place: &Place::container(),
            program: None,
        },
    )
}

#[test]
fn the_engine_chooses_the_layers_where_it_is_told_to_fit() {
    let line = |more: Value, version: &str| {
        let mut body = json!({"served_name": "t", "engine_type": "llamacpp", "local_path": "x.gguf"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        llama_on_a_gpu(&body, version, false).args.join(" ")
    };
    for more in [json!({}), json!({"ngl": 999}), json!({"fit_memory": "on"})] {
        // The engine does so by itself.
        let command = line(more.clone(), "b11434");
        assert!(!command.contains("--fit") && !command.contains("--n-gpu-layers"), "{command}");
        // Builds without the feature are told to put all layers on the GPU.
        assert!(line(more.clone(), "b7000").contains("--n-gpu-layers 999"), "{more}");
    }
    assert!(line(json!({"ngl": 20, "fit_memory": "on"}), "b11434").contains("--n-gpu-layers 20"));
    let off = line(json!({"fit_memory": "off"}), "b11434");
    assert!(off.contains("--fit off") && off.contains("--n-gpu-layers 999"), "{off}");
}

#[test]
fn a_gpu_that_is_named_twice_counts_once() {
    let mut stored =
        model(&json!({"served_name": "t", "engine_type": "vllm", "local_path": "m"})).config.values().clone();
    stored.insert("selected_gpus".to_owned(), json!([1, 0, 1]));
    let mut model = model(&json!({"served_name": "t", "engine_type": "vllm", "local_path": "m"}));
    model.config = crate::model::ModelConfig::from_stored(stored);
    assert_eq!(gpus(&model, &Host { cpus: 8, gpus: vec![0, 1] }), [1, 0]);
}

#[test]
fn embedding_inputs_may_be_as_long_as_the_context() {
    let batches = |more: Value| {
        let mut body =
            json!({"served_name": "t", "engine_type": "llamacpp", "local_path": "x.gguf", "task": "embed"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let args = launch_at(&body, "b11434").args;
        let of = |flag: &str| {
            let mut found =
                args.iter().zip(args.iter().skip(1)).filter(|it| it.0 == flag).map(|it| it.1.clone());
            (found.next().unwrap_or_default(), found.next())
        };
        let ((batch, None), (ubatch, None)) = (of("--batch-size"), of("--ubatch-size")) else {
            panic!("given twice: {args:?}");
        };
        (batch, ubatch)
    };
    let both = |it: &str| (it.to_owned(), it.to_owned());
    assert_eq!(batches(json!({})), both("8192"));
    assert_eq!(batches(json!({"context_size": 2048})), both("2048"));
    // The model's own length, and a length that is far too large.
    assert_eq!(batches(json!({"context_size": 0})), both("8192"));
    assert_eq!(batches(json!({"context_size": 131_072})), both("8192"));
    assert_eq!(batches(json!({"batch_size": 300})), both("300"));
    assert_eq!(batches(json!({"ubatch_size": 16_384, "context_size": 100})), both("16384"));
    assert_eq!(
        batches(json!({"ubatch_size": 64, "context_size": 1000})),
        ("1000".to_owned(), "64".to_owned())
    );
    assert_eq!(batches(json!({"ubatch_size": 64, "batch_size": 128})), ("128".to_owned(), "64".to_owned()));
}

#[test]
fn old_and_new_builds_are_told_that_they_may_not_use_the_network() {
    let body = json!({"served_name": "t", "engine_type": "llamacpp", "repo_id": "a/b", "mode": "online"});
    for name in ["LLAMA_ARG_OFFLINE", "LLAMA_OFFLINE"] {
        let has = |launch: &Launch| launch.env.iter().any(|it| it.0 == name);
        assert!(has(&llama_on_a_gpu(&body, "b6000", true)), "{name}");
        assert!(!has(&llama_on_a_gpu(&body, "b6000", false)), "{name}");
    }
}

#[test]
fn what_no_version_accepts_is_left_out() {
    let body = json!({
        "served_name": "tiny", "engine_type": "llamacpp", "local_path": "x.gguf", "numa": "none",
        "mlock": false, "no_mmap": false, "threads": 64,
    });
    let launch = launch_at(&body, "b11434");
    assert!(!launch.args.iter().any(|it| it == "--numa" || it == "--load-mode"), "{:?}", launch.args);
    assert_eq!(launch.warnings[0].field, "threads");
}

#[test]
fn drafting_needs_a_type_on_new_builds_and_other_words_on_old_ones() {
    let body = json!({
        "served_name": "t", "engine_type": "llamacpp", "local_path": "x.gguf", "draft_model_path": "d.gguf",
    });
    let new = launch_at(&body, "b11434").args.join(" ");
    assert!(new.contains("--model-draft /models/d.gguf --spec-type draft-simple"), "{new}");
    assert!(new.contains("--spec-draft-n-max 16 --spec-draft-p-min 0.5"), "{new}");
    let old = launch_at(&body, "b6000").args.join(" ");
    assert!(old.contains("--draft-max 16 --draft-p-min 0.5") && !old.contains("--spec"), "{old}");
}

#[test]
fn vllm_serves_a_local_folder_offline() {
    let body = json!({"served_name": "org/tiny", "engine_type": "vllm", "local_path": "hf/tiny/", "max_model_len": 512});
    let launch = launch_at(&body, "v0.32.0");
    assert_eq!(launch.entrypoint.as_deref().unwrap(), ["vllm", "serve"]);
    assert_eq!(
        launch.args.join(" "),
        "/models/hf/tiny --served-model-name org/tiny --host 0.0.0.0 --port 8000 --dtype auto --max-model-len 512 --max-num-seqs 256 --max-num-batched-tokens 2048 \
         --kv-cache-dtype auto --enforce-eager"
    );
    let names: Vec<_> = launch.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["VLLM_API_KEY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_CPU_KVCACHE_SPACE"]);
}

#[test]
fn without_gpus_vllm_does_not_ask_for_all_ram() {
    let launched = |more: Value, gpus: &[u32]| {
        let mut body = json!({"served_name": "t", "engine_type": "vllm", "local_path": "m"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = launch_on(&body, "v0.32.0", gpus, false);
        let space: Vec<_> = made.env.iter().filter(|it| it.0 == "VLLM_CPU_KVCACHE_SPACE").collect();
        let space = space.iter().map(|it| it.1.expose_secret().to_owned()).collect::<Vec<_>>().join(" ");
        (made.args.join(" ").contains("--gpu-memory-utilization"), space)
    };
    assert_eq!(launched(json!({}), &[]), (false, "4".to_owned()));
    assert_eq!(launched(json!({"device": "cpu"}), &[0]), (false, "4".to_owned()));
    assert_eq!(launched(json!({}), &[0]), (true, String::new()));
    // An explicit setting counts.
    assert_eq!(launched(json!({"gpu_memory_utilization": 0.3}), &[]), (true, String::new()));
    assert_eq!(launched(json!({"kv_cache_memory_bytes": 1 << 30}), &[]), (false, String::new()));
    let own = json!({"extra_env": {"VLLM_CPU_KVCACHE_SPACE": "1"}});
    assert_eq!(launched(own, &[]), (false, "1".to_owned()));
}

#[test]
fn flags_that_a_version_lost_are_replaced_or_warned_about() {
    let body = json!({
        "served_name": "m", "engine_type": "vllm", "local_path": "m.gguf", "task": "embed", "swap_space_gb": 4,
        "enforce_eager": false, "cuda_graph_sizes": "1, 2,4", "kv_cache_memory_bytes": 1000,
    });
    let old = launch_at(&body, "v0.10.0");
    let line = old.args.join(" ");
    assert!(line.contains("--task embed") && line.contains("--swap-space 4"), "{line}");
    assert!(line.contains("--cuda-graph-sizes 1 2 4") && line.contains("--no-enforce-eager"), "{line}");
    assert_eq!(old.warnings.iter().map(|it| it.field).collect::<Vec<_>>(), ["kv_cache_memory_bytes"]);
    let new = launch_at(&body, "v0.32.0");
    let line = new.args.join(" ");
    assert!(
        line.contains("--runner pooling --convert embed") && line.contains("--kv-offloading-size 4"),
        "{line}"
    );
    assert!(line.contains("--cudagraph-capture-sizes 1 2 4"), "{line}");
    assert_eq!(new.warnings.iter().map(|it| it.field).collect::<Vec<_>>(), ["local_path"]);
}

#[test]
fn secrets_travel_by_environment_only_and_do_not_change_the_hash() {
    let mut body = json!({
        "served_name": "m", "engine_type": "vllm", "repo_id": "a/b", "hub_token": "hf_first",
    });
    let first = launch_at(&body, "v0.32.0");
    assert!(!first.args.iter().any(|it| it.contains("hf_first") || it.contains("internal")));
    let token = first.env.iter().find(|(name, _)| name == "HF_TOKEN").unwrap();
    assert_eq!(token.1.expose_secret(), "hf_first");
    body["hub_token"] = json!("hf_second");
    assert_eq!(launch_at(&body, "v0.32.0").spec_hash(), first.spec_hash());
    body["max_model_len"] = json!(100);
    assert_ne!(launch_at(&body, "v0.32.0").spec_hash(), first.spec_hash());
}

#[test]
fn a_local_file_may_take_its_tokenizer_from_the_hub() {
    let body = |tokenizer: &str| {
        json!({
            "served_name": "m", "engine_type": "vllm", "local_path": "m.gguf", "tokenizer": tokenizer,
            "hub_token": "hf_x",
        })
    };
    let names = |launch: &Launch| {
        launch.env.iter().map(|it| it.0.clone()).filter(|it| !it.starts_with("VLLM_")).collect::<Vec<_>>()
    };
    let hub = launch_at(&body("Qwen/Qwen3-8B"), "v0.23.0");
    assert!(hub.args.join(" ").contains("--tokenizer Qwen/Qwen3-8B"), "{:?}", hub.args);
    assert_eq!(names(&hub), ["HF_HOME", "HF_TOKEN"]);
    assert!(hub.mounts_hub_cache);
    // A file in the hub cache can be used without a network.
    let mut offline = body("Qwen/Qwen3-8B");
    offline["mode"] = json!("offline");
    let offline = launch_at(&offline, "v0.23.0");
    assert_eq!(names(&offline), ["HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]);
    assert!(offline.mounts_hub_cache);
    let folder = launch_at(&body("/models/qwen/tokenizer/"), "v0.23.0");
    assert!(folder.args.join(" ").contains("--tokenizer /models/qwen/tokenizer"), "{:?}", folder.args);
    assert_eq!(names(&folder), ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]);
    assert!(!folder.mounts_hub_cache);
}

#[test]
fn a_process_sees_real_paths_and_loopback() {
    let (models, hub) = (std::path::Path::new("/srv/models/"), std::path::Path::new("/srv/hub"));
    let place = Place::process(models, hub);
    let program = ["/opt/llama-server".to_owned()];
    let at = |body: &Value| {
        let model = model(body);
        let cx = LaunchContext {
            image: "llama-server",
            version: EngineVersion::Unknown(model.engine),
            host: &Host { cpus: 2, gpus: vec![] },
            key: &"internal".into(),
            offline: false,
            fetches_media: false,
            hub_endpoint: None,
            place: &place,
            program: Some(&program),
        };
        launch(&model, &cx)
    };
    let llama = at(&json!({
        "served_name": "tiny", "engine_type": "llamacpp", "local_path": "t/x.gguf", "mmproj": "p.gguf",
        "draft_model_path": "/models/d.gguf", "lora_adapters": ["a=l.gguf"],
    }));
    let line = llama.args.join(" ");
    for part in [
        "--model /srv/models/t/x.gguf",
        "--host 127.0.0.1 --port $PORT",
        "--mmproj /srv/models/p.gguf",
        "--model-draft /srv/models/d.gguf",
        "--lora /srv/models/l.gguf",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains("0.0.0.0") && !line.contains(" /models"), "{line}");
    assert_eq!(llama.entrypoint.as_deref().unwrap(), program);
    let vllm = at(&json!({
        "served_name": "m", "engine_type": "vllm", "repo_id": "a/b", "tokenizer": "/models/t",
        "hub_config_path": "c", "lora_adapters": ["a=l"],
    }));
    let line = vllm.args.join(" ");
    assert!(line.contains("--tokenizer /srv/models/t --hf-config-path /srv/models/c"), "{line}");
    assert!(line.contains("a=/srv/models/l") && !line.contains(" /models"), "{line}");
    let home = vllm.env.iter().find(|(name, _)| name == "HF_HOME").unwrap();
    assert_eq!(home.1.expose_secret(), "/srv/hub");
}
