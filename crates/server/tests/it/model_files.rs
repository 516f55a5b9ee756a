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
        let warnings = warnings.iter().filter(|it| it["category"] != "defaults");
        warnings.map(|it| format!("{} {}", it["severity"].as_str().unwrap(), it["field"])).collect()
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
    // The folder has GGUF files, which vLLM does not look for.
    let path = ["error \"local_path\"", "error \"local_path\"", "info \"local_path\""];
    let named = named(&preview);
    assert_eq!(named[..2], ["error null", "warning \"tensor_parallel_size\""]);
    assert_eq!(named[2..], path, "{preview}");
    assert_eq!(preview["vram_estimate"], Value::Null, "unknown rather than a guess");
}

/// A GGUF file that takes 4 KB on disk and claims a vocabulary of 16 million empty words, which has to be walked:
/// 128 MiB are read of it.
fn add_endless(path: &std::path::Path) {
    let text = |it: &str| [&(it.len() as u64).to_le_bytes()[..], it.as_bytes()].concat();
    let key = |name: &str, kind: u32, value: &[u8]| [&text(name)[..], &kind.to_le_bytes(), value].concat();
    let mut head = b"GGUF\x03\0\0\0".to_vec();
    head.extend(0_u64.to_le_bytes());
    head.extend(2_u64.to_le_bytes());
    head.extend(key("general.architecture", 8, &text("llama")));
    let words = [&8_u32.to_le_bytes()[..], &(16_u64 << 20).to_le_bytes()].concat();
    head.extend(key("tokenizer.ggml.tokens", 9, &words));
    std::fs::write(path, &head).unwrap();
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(256 << 20).unwrap();
}

#[tokio::test]
async fn a_folder_of_tiny_files_with_endless_headers_is_read_in_part_and_that_is_said() {
    let team = team().await;
    let folder = team.gateway.models_dir().join("endless");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(GGUF, folder.join("a-F16.gguf")).unwrap();
    for number in 0..100 {
        add_endless(&folder.join(format!("b{number:03}.gguf")));
    }
    let found = team.admin.get("/admin/models/inspect-folder?folder=endless").await.expect(200);
    let groups = found["gguf_groups"].as_array().unwrap();
    assert_eq!((&groups[0]["path"], &groups[0]["status"]), (&json!("endless/a-F16.gguf"), &json!("ready")));
    let unread = found["warnings"].as_array().unwrap().iter().filter_map(Value::as_str);
    let unread: Vec<&str> = unread.filter(|it| it.contains("were not read")).collect();
    assert!(unread.len() == 1, "{unread:?}");
    assert!(
        unread[0].starts_with('b') && unread[0].contains("the headers before it are too large"),
        "{unread:?}"
    );
    assert_eq!(found["engine_recommendation"]["path"], "endless/a-F16.gguf");
}
