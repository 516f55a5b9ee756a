//! Tests what a request body becomes, and which problems are reported for one that can't be a model.

use serde_json::json;

use super::*;
use crate::{ModelId, Timestamp};

fn create(body: &Value, by: Role) -> Result<ModelDraft, Vec<FieldProblem>> {
    ModelDraft::create(body.as_object().unwrap(), by)
}

fn params(result: Result<ModelDraft, Vec<FieldProblem>>) -> Vec<String> {
    result.unwrap_err().into_iter().map(|it| it.param).collect()
}

#[test]
fn a_small_body_is_enough() {
    let draft = create(
        &json!({"served_model_name": "tiny", "engine_type": "secondary", "local_path": "a/b.gguf"}),
        Role::Admin,
    )
    .unwrap();
    assert_eq!((draft.name.as_str(), draft.task), ("tiny", Task::Generate));
    assert_eq!(draft.engine, EngineKind::Llamacpp);
    assert!(!draft.config.is_online());
}

#[test]
fn every_problem_is_reported_at_once() {
    let found = params(create(
        &json!({
            "served_name": "", "engine_type": "vllm", "repo_id": 7, "gpu_memory_utilization": 0.99,
            "block_size": 3, "ngl": 1, "colour": "red", "dtype": "int3", "local_path": "../../etc",
        }),
        Role::Admin,
    ));
    assert_eq!(
        found,
        [
            "served_name",
            "repo_id",
            "gpu_memory_utilization",
            "block_size",
            "ngl",
            "colour",
            "dtype",
            "local_path"
        ]
    );
}

#[test]
fn what_gives_power_over_the_host_needs_an_owner() {
    let body = json!({
        "served_name": "m", "engine_type": "vllm", "local_path": "m", "engine_image": "evil:1",
        "trust_remote_code": true, "extra_args": ["--foo"], "extra_env": {"A": "b"},
    });
    let found = create(&body, Role::Admin).unwrap_err();
    assert!(found.iter().all(|it| it.code == ErrorCode::Forbidden), "{found:?}");
    let found: Vec<_> = found.into_iter().map(|it| it.param).collect();
    assert_eq!(found, ["engine_image", "trust_remote_code", "extra_args", "extra_env"]);
    assert!(create(&body, Role::Owner).is_ok());
}

#[test]
fn extra_arguments_cannot_take_over_what_the_gateway_owns() {
    for (name, value) in [
        ("extra_args", json!(["--host", "0.0.0.0"])),
        ("extra_args", json!(["--api-key=x"])),
        ("extra_env", json!({"LD_PRELOAD": "/x.so"})),
        ("extra_env", json!({"VLLM_API_KEY": "x"})),
        ("extra_env", json!({"A=B": "x"})),
    ] {
        let mut body = json!({"served_name": "m", "engine_type": "vllm", "local_path": "m"});
        body[name] = value;
        assert_eq!(params(create(&body, Role::Owner)), [name]);
    }
}

#[test]
fn a_tokenizer_is_a_repository_or_lies_below_the_models() {
    let body = |tokenizer: &str| json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "tokenizer": tokenizer });
    for good in ["Qwen/Qwen3-8B", "gpt2", "/models/qwen", "/models/a/b c/"] {
        assert!(create(&body(good), Role::Admin).is_ok(), "{good}");
    }
    for (bad, code) in [
        ("/etc/passwd", ErrorCode::PathNotAllowed),
        ("/models/../etc", ErrorCode::PathNotAllowed),
        ("../../etc/x", ErrorCode::PathNotAllowed),
        ("a/../../b", ErrorCode::PathNotAllowed),
        ("/models", ErrorCode::PathNotAllowed),
        ("/models/", ErrorCode::ValidationError),
        ("a/b/c", ErrorCode::ValidationError),
        ("", ErrorCode::ValidationError),
        ("--x", ErrorCode::ValidationError),
    ] {
        let found = create(&body(bad), Role::Admin).unwrap_err();
        assert_eq!((found[0].param.as_str(), found[0].code), ("tokenizer", code), "{bad:?}");
    }
    // Symbolic links below the base directory are checked like those of other paths.
    let paths = create(&body("/models/qwen"), Role::Admin).unwrap().config.paths();
    assert!(paths.contains(&("tokenizer", "qwen".to_owned())), "{paths:?}");
}

#[test]
fn a_gpu_is_chosen_once() {
    let body = |gpus: Value| json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "selected_gpus": gpus });
    assert_eq!(params(create(&body(json!([0, 1, 0])), Role::Admin)), ["selected_gpus"]);
    assert!(create(&body(json!([1, 0])), Role::Admin).is_ok());
    assert!(create(&body(json!([])), Role::Admin).is_ok());
}

#[test]
fn what_would_not_count_is_refused() {
    let vllm = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m" });
    let llama = json!({ "served_name": "m", "engine_type": "llamacpp", "local_path": "m.gguf" });
    let with = |base: &Value, more: Value| {
        let mut body = base.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(&body, Role::Admin)
    };
    for base in [&vllm, &llama] {
        let both = json!({ "chat_template": "{{ x }}", "chat_template_file": "t.jinja" });
        assert_eq!(params(with(base, both)), ["chat_template"]);
        for key in ["model", "stream", "stream_options", "messages", "prompt", "input"] {
            let found = with(base, json!({ "request_defaults": { "top_k": 1, key: null } })).unwrap_err();
            assert_eq!(found[0].param, "request_defaults");
            assert!(found[0].message.contains(&format!("`{key}`")), "{}", found[0].message);
        }
        assert!(with(base, json!({ "request_defaults": { "top_k": 1, "max_tokens": 5 } })).is_ok());
    }
    for task in [json!({}), json!({ "task": "generate" })] {
        let mut body = task.clone();
        body["pooling"] = json!("rank");
        assert_eq!(params(with(&llama, body)), ["pooling"], "{task}");
    }
    assert!(with(&llama, json!({ "task": "embed", "pooling": "rank" })).is_ok());
    // A change of the task alone must obey this rule as well.
    let reranker = with(&llama, json!({ "task": "embed", "pooling": "rank" })).unwrap();
    let reranker = Model::new(ModelId(1), reranker, Timestamp(0));
    let change = json!({ "task": "generate" });
    let found = ModelDraft::change(&reranker, change.as_object().unwrap(), Role::Admin);
    assert_eq!(params(found), ["pooling"]);
}

/// Returns a record as an older version of the gateway left it in the database.
fn stored(values: &Value) -> Model {
    let body = json!({ "served_name": "m", "engine_type": "vllm", "repo_id": "good/model" });
    let mut model = Model::new(ModelId(1), create(&body, Role::Owner).unwrap(), Timestamp(0));
    let mut map = model.config.values().clone();
    map.extend(values.as_object().unwrap().clone());
    model.config = ModelConfig::from_stored(map);
    model
}

#[test]
fn trust_in_code_is_a_field_and_no_argument() {
    for word in [
        "--trust-remote-code",
        "--trust_remote_code",
        "--trust-remote",
        "--trust",
        "--tr",
        "--trust-remote-code=true",
        "--trust_remote-c",
    ] {
        let body = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "extra_args": ["-v", word] });
        let found = create(&body, Role::Owner).unwrap_err();
        assert_eq!(found.len(), 1, "{word}");
        assert_eq!(found[0].param, "extra_args", "{word}");
        assert!(found[0].message.contains("`trust_remote_code`"), "{}", found[0].message);

        // In a record that was saved before this rule existed, the argument has the same effect as the field.
        let old = stored(&json!({ "extra_args": [word] }));
        let other = json!({ "repo_id": "evil/code" });
        let found = ModelDraft::change(&old, other.as_object().unwrap(), Role::Admin).unwrap_err();
        assert_eq!((found[0].param.as_str(), found[0].code), ("repo_id", ErrorCode::Forbidden), "{word}");
        assert!(ModelDraft::change(&old, other.as_object().unwrap(), Role::Owner).is_ok(), "{word}");
        // It does not block other changes either, nor forms that send all fields back.
        let all = json!({ "extra_args": [word], "max_model_len": 100 });
        assert!(ModelDraft::change(&old, all.as_object().unwrap(), Role::Admin).is_ok(), "{word}");
    }
    for word in ["--tokenizer-mode=slow", "--tensor-parallel-size", "-tp"] {
        let body =
            json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "extra_args": [word] });
        assert!(create(&body, Role::Owner).is_ok(), "{word}");
    }
}
