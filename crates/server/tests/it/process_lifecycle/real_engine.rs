//! A real llama-server as a process: `GANTRY_TEST_LLAMA_SERVER` names one, else it is taken out of the test image.

use std::path::{Path, PathBuf};

use gantry_testkit::{Managed, Options, copy, docker, docker_cli, skip};
use serde_json::json;

use super::{nothing_left, process};
use crate::support::start;

#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the gateway")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}

fn llama_server(dir: &Path) -> Option<PathBuf> {
    let test = "process_lifecycle: llama-server";
    if let Some(path) = setting("GANTRY_TEST_LLAMA_SERVER") {
        return Some(path.into());
    }
    let Some(image) = setting("GANTRY_TEST_LLAMA_IMAGE") else {
        skip(test, "neither GANTRY_TEST_LLAMA_SERVER nor GANTRY_TEST_LLAMA_IMAGE is set");
        return None;
    };
    if !docker(test) {
        return None;
    }
    let container = docker_cli(&["create", &image]);
    let path = dir.join("llama-server");
    docker_cli(&["cp", &format!("{container}:/app/llama-server"), path.to_str().unwrap()]);
    docker_cli(&["rm", &container]);
    Some(path)
}

#[tokio::test]
async fn llama_server_serves_survives_the_gateway_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = llama_server(dir.path()) else { return };
    let mut gateway =
        start(Options::processes().env("SECONDARY_ENGINE_COMMAND", program.to_str().unwrap())).await;
    let owner = gateway.owner().await;
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf/tiny-llama-F16.gguf");
    copy(&fixture, &gateway.models_dir().join("tiny.gguf"));
    let body = json!({
        "served_name": "tiny", "engine_type": "llamacpp", "local_path": "tiny.gguf", "device": "cpu",
        "context_size": 512, "mlock": false,
    });
    let preview = owner.post("/admin/models/dry-run", &body).await.expect(200);
    assert_eq!(preview["simulator"], false, "{preview}");
    // Debian's build of the day has another number than the pinned one.
    let version = preview["engine_version"].as_str().unwrap_or_default();
    assert!(version.strip_prefix('b').is_some_and(|it| it.parse::<u32>().is_ok()), "{preview}");
    let model = Managed::create(&owner, &body).await;
    model.start(&owner).await;
    model.reaches_within(&owner, "running", gantry_testkit::PATIENCE).await;
    let answer = owner.chat("tiny").await.expect(200);
    assert!(answer["usage"]["completion_tokens"].as_i64().unwrap() > 0, "{answer}");
    let before = process(&gateway, &model);
    gateway.kill_and_restart().await;
    let owner = gateway.owner().await;
    model.reaches(&owner, "running").await;
    assert_eq!(process(&gateway, &model), before);
    owner.chat("tiny").await.expect(200);
    let log = owner.get(&model.path("logs")).await.expect(200);
    assert!(log["logs"].as_str().unwrap().contains("listening on http://127.0.0.1:"), "{log}");
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;

    // What it says of a broken file is in the log, its code in the reason.
    std::fs::write(gateway.models_dir().join("broken.gguf"), "<html>").unwrap();
    let body = json!({ "served_name": "broken", "engine_type": "llamacpp", "local_path": "broken.gguf" });
    let broken = Managed::create(&owner, &body).await;
    broken.start(&owner).await;
    assert_eq!(broken.fails(&owner).await, "container_exited: exit code 1");
    let log = owner.get(&broken.path("logs")).await.expect(200);
    assert!(log["logs"].as_str().unwrap().contains("invalid magic characters"), "{log}");
    nothing_left(&gateway).await;
}
