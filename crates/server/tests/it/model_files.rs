//! What lies below the models base directory, and what a start of it would run.

use gantry_testkit::{Database, Options};
use serde_json::{Value, json};

use crate::{support::assert_error, team::Team};

const GGUF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gguf/tiny-llama-F16.gguf");

async fn team() -> Team {
    let team =
        Team::with(Options::default().on(Database::Sqlite).env("CONTAINER_HOST", "unix:///nonexistent.sock"))
            .await;
    let models = team.gateway.models_dir();
    std::fs::create_dir(models.join("tiny")).unwrap();
    let good = std::fs::read(GGUF).unwrap();
    std::fs::write(models.join("tiny/tiny-F16.gguf"), &good).unwrap();
    std::fs::write(models.join("tiny/cut-Q8_0.gguf"), &good[..good.len() / 2]).unwrap();
    std::os::unix::fs::symlink("/etc", models.join("out")).unwrap();
    team
}

#[tokio::test]
async fn folders_are_listed_and_read_and_nothing_outside_is() {
    let team = team().await;
    let folders = team.admin.get("/admin/models/local-folders").await.expect(200);
    let tiny = folders.as_array().unwrap().iter().find(|it| it["path"] == "tiny").unwrap();
    assert_eq!((&tiny["has_gguf"], &tiny["has_safetensors"]), (&json!(true), &json!(false)));
    assert!(!folders.to_string().contains("etc"), "{folders}");

    let found = team.admin.get("/admin/models/inspect-folder?folder=tiny").await.expect(200);
    assert_eq!(found["has_gguf"], true);
    assert_eq!(found["engine_recommendation"]["recommended_engine"], "llamacpp");
    assert_eq!(found["gguf_validation"]["total_files"], 2);
    assert_eq!(found["gguf_validation"]["invalid_files"], 1);
    assert!(found["gguf_validation"]["errors"][0].as_str().unwrap().contains("cut-Q8_0.gguf"), "{found}");
    let ready: Vec<_> =
        found["gguf_groups"].as_array().unwrap().iter().filter(|it| it["status"] == "ready").collect();
    assert_eq!(ready.len(), 1);
    let metadata = &ready[0]["metadata"];
    assert_eq!((&metadata["architecture"], &metadata["block_count"]), (&json!("llama"), &json!(2)));
    assert_eq!((&metadata["vocab_size"], &metadata["file_type"]), (&json!(960), &json!("F16")));

    for outside in ["..", "/etc", "out", "tiny/../../x", "out/ssl"] {
        let answer = team.admin.get(&format!("/admin/models/inspect-folder?folder={outside}")).await;
        assert_error(&answer, 422, "path_not_allowed");
    }
    let answer = team.admin.get("/admin/models/inspect-folder?folder=nothing").await;
    assert_error(&answer, 404, "not_found");
}

#[tokio::test]
async fn a_dry_run_shows_the_command_without_secrets_and_what_is_wrong() {
    let team = team().await;
    let body = json!({
        "served_name": "tiny", "engine_type": "llamacpp", "local_path": "tiny/missing.gguf", "tensor_split": "3,1",
        "hub_token": "hf_very_secret", "extra_env": { "MY_PASSWORD": "hunter2" }, "numa": "none",
    });
    let preview = team.owner.post("/admin/models/dry-run", &body).await.expect(200);
    let text = preview.to_string();
    assert!(!text.contains("hf_very_secret") && !text.contains("hunter2"), "{text}");
    assert_eq!(preview["env"]["MY_PASSWORD"], "***");
    let command: Vec<_> = preview["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(command.windows(2).any(|it| it == ["--model", "/models/tiny/missing.gguf"]), "{command:?}");
    assert!(!command.contains(&"--numa"), "{command:?}");
    assert!(preview["command_str"].as_str().unwrap().contains("--model /models/tiny/missing.gguf"));
    assert_eq!(preview["valid"], false);
    let named = |preview: &Value| -> Vec<String> {
        let warnings = preview["warnings"].as_array().unwrap();
        warnings.iter().map(|it| format!("{} {}", it["severity"].as_str().unwrap(), it["field"])).collect()
    };
    assert_eq!(
        named(&preview),
        ["error null", "warning \"tensor_split\"", "error \"local_path\"", "info \"local_path\""]
    );
    assert_eq!(team.owner.get("/admin/models").await.text, "[]", "nothing is stored");

    let body = json!({
        "served_name": "big", "engine_type": "vllm", "local_path": "tiny", "tensor_parallel_size": 64,
        "engine_image": "vllm/vllm-openai:v0.12.0", "task": "embed", "swap_space_gb": 2,
    });
    let id = team.owner.post("/admin/models", &body).await.expect(201)["id"].as_i64().unwrap();
    let preview = team.admin.post(&format!("/admin/models/{id}/dry-run"), &json!({})).await.expect(200);
    assert_eq!(preview["engine_version"], "0.12.0");
    let command = preview["command_str"].as_str().unwrap();
    assert!(command.starts_with("vllm serve /models/tiny --served-model-name big"), "{command}");
    assert!(command.contains("--swap-space 2") && command.contains("--runner pooling"), "{command}");
    assert_eq!(named(&preview), ["error null", "warning \"tensor_parallel_size\"", "info \"local_path\""]);
    assert_eq!(preview["vram_estimate"], Value::Null, "unknown rather than a guess");
}
