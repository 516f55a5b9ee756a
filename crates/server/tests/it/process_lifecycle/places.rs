//! What the gateway tells an operator about where the files of models and the programs of engines are.

use gantry_testkit::{Managed, Options, eventually, simulated};
use serde_json::{Value, json};

use super::{gateway, process, word};
use crate::support::start;

/// The words that an engine was started with.
fn words(pid: i64) -> Vec<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    line.split('\0').map(str::to_owned).collect()
}

/// A container keeps what was mounted; a process has the real path in its command.
#[tokio::test]
async fn another_models_directory_is_used_by_the_next_start_and_told_before() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let first = gateway.models_dir().canonicalize().unwrap().join("simulated");
    let running = process(&gateway, &model);
    assert!(words(running.0).iter().any(|it| it == first.to_str().unwrap()), "{:?}", words(running.0));
    assert_eq!(model.record(&owner).await["needs_apply"], false);

    // Directories whose name begins with a dot are not taken.
    let root = tempfile::Builder::new().prefix("models").tempdir().unwrap();
    let chosen = root.path().canonicalize().unwrap();
    owner.put("/admin/models/base-dir", &json!({ "base_dir": chosen })).await.expect(200);
    let drifted = eventually("the change is noticed", gantry_testkit::PATIENCE, async || {
        let record = model.record(&owner).await;
        (record["needs_apply"] == true).then_some(record)
    })
    .await;
    assert!(word(&drifted["needs_apply_reason"]).contains("settings"), "{drifted}");
    assert_eq!(process(&gateway, &model), running, "it goes on as it was started");

    model.command(&owner, "apply").await.expect(202);
    model.reaches(&owner, "running").await;
    let after = words(process(&gateway, &model).0);
    assert!(after.iter().any(|it| it == chosen.join("simulated").to_str().unwrap()), "{after:?}");
    eventually("nothing is left to apply", gantry_testkit::PATIENCE, async || {
        (model.record(&owner).await["needs_apply"] == false).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_can_start_nothing_is_not_ready_for_anything() {
    let options = Options::processes()
        .env("PRIMARY_ENGINE_COMMAND", "/no/such/vllm serve")
        .env("SECONDARY_ENGINE_COMMAND", "/no/such/llama-server");
    let gateway = start(options).await;
    let status = gateway.owner().await.get("/admin/system/container-images").await.expect(200);
    let ready = (&status["offline_ready"], &status["summary"]["critical_images_cached"]);
    assert_eq!(ready, (&json!(false), &json!(false)), "{status}");
    assert_eq!(status["recommendations"].as_array().unwrap().len(), 2, "{status}");
}

#[tokio::test]
async fn programs_stand_where_images_stand_and_what_to_install_is_said() {
    let command = "/no/such/llama-server -x";
    let gateway = start(Options::processes().env("SECONDARY_ENGINE_COMMAND", command)).await;
    let owner = gateway.owner().await;
    let status = async || owner.get("/admin/system/container-images").await.expect(200);
    let before = status().await;
    assert_eq!(before["offline_ready"], true, "no model needs what is missing: {before}");
    assert_eq!(
        before["engines"]["llamacpp"],
        json!({ "image": command, "cached": false, "size_mb": null, "created": null })
    );
    let vllm = &before["engines"]["vllm"];
    assert_eq!(vllm["cached"], true);
    assert!(word(&vllm["image"]).ends_with("/gantry engine-sim --flavour vllm"), "{vllm}");
    let advice: Vec<&str> = before["recommendations"].as_array().unwrap().iter().map(word).collect();
    assert_eq!(advice.len(), 2, "{advice:?}");
    assert!(advice[0].starts_with("PRIMARY_ENGINE_COMMAND names the simulator"), "{advice:?}");
    assert!(advice[1].contains(command) && advice[1].contains("SECONDARY_ENGINE_COMMAND"), "{advice:?}");
    assert!(!advice.iter().any(|it| it.contains("docker")), "{advice:?}");

    std::fs::write(gateway.models_dir().join("m.gguf"), "x").unwrap();
    // Its image means nothing here: it would start the machine's program.
    let body = json!({
        "served_name": "m", "engine_type": "llamacpp", "local_path": "m.gguf", "force": true,
        "engine_image": "ghcr.io/ggml-org/llama.cpp:server-b11434",
    });
    Managed::create(&owner, &body).await;
    let after = status().await;
    assert_eq!((&after["offline_ready"], &after["models"]), (&json!(false), &json!([])), "{after}");

    let exports = gateway.data_dir().join("exports");
    std::fs::create_dir_all(&exports).unwrap();
    std::fs::write(exports.join("image.tar"), "x").unwrap();
    let refused = owner.post("/admin/system/container-images/load", &json!({ "path": "image.tar" })).await;
    let said: Value = refused.expect(422);
    assert!(word(&said["error"]["message"]).contains("images mean nothing"), "{said}");
}
