//! A simulator runs only if the record or a setting names it, and users can see that it is a simulator.

use gantry_testkit::{Managed, Options, chat, simulated};
use serde_json::{Value, json};

use super::{gateway, program};
use crate::{monitoring::page, support::start};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn an_engine_that_is_not_installed_fails_and_nothing_takes_its_place() {
    let nothing = Options::processes().env("PRIMARY_ENGINE_COMMAND", "").env("SECONDARY_ENGINE_COMMAND", "");
    let gateway = start(nothing.env("PATH", "/nonexistent")).await;
    let owner = gateway.owner().await;
    std::fs::create_dir_all(gateway.models_dir().join("m")).unwrap();
    std::fs::write(gateway.models_dir().join("m.gguf"), "x").unwrap();
    for (engine, path, program, setting) in [
        ("vllm", "m", "vllm serve", "PRIMARY_ENGINE_COMMAND"),
        ("llamacpp", "m.gguf", "llama-server", "SECONDARY_ENGINE_COMMAND"),
    ] {
        let body =
            json!({ "served_name": engine, "engine_type": engine, "local_path": path, "device": "cpu" });
        let preview = owner.post("/admin/models/dry-run", &body).await.expect(200);
        assert_eq!((&preview["valid"], &preview["simulator"]), (&json!(false), &json!(false)), "{preview}");
        let about = |it: &&Value| it["title"] == "The engine is not installed";
        let warning = preview["warnings"].as_array().unwrap().iter().find(about).expect("it is told");
        assert_eq!(warning["severity"], "error");
        assert!(warning["fix"].as_str().unwrap().contains(setting), "{warning}");

        let model = Managed::create(&owner, &body).await;
        model.start(&owner).await;
        let reason = model.fails(&owner).await;
        let expected = format!("start_failed: the program `{program}` is not on this machine");
        assert!(reason.starts_with(&expected), "{reason}");
        let found = owner.get(&model.path("logs?diagnose=true")).await.expect(200)["diagnosis"].clone();
        assert_eq!(
            (&found["error_type"], &found["title"]),
            (&json!("engine_not_installed"), &json!("The engine is not installed")),
            "{found}"
        );
        assert!(found["fixes"].to_string().contains(setting), "{found}");
        assert_eq!(owner.chat(engine).await.status, 503);
        assert_eq!(model.record(&owner).await["simulator"], false);
    }
    assert_eq!(owner.get("/v1/models").await.expect(200)["data"], json!([]));
    let advice = owner.get("/admin/system/container-images").await.expect(200)["recommendations"].clone();
    assert!(advice.to_string().contains("vLLM is not installed"), "{advice}");
}

#[tokio::test]
async fn a_simulator_is_marked_wherever_it_is_met_and_an_engine_is_not() {
    let dir = tempfile::tempdir().unwrap();
    // To the gateway any program is an engine but the one that the setting calls a simulator.
    let engine = program(&dir, "llama-server", "exec GANTRY engine-sim --flavour llamacpp \"$@\"");
    let gateway = start(Options::processes().env("SECONDARY_ENGINE_COMMAND", engine.to_str().unwrap())).await;
    let owner = gateway.owner().await;
    std::fs::write(gateway.models_dir().join("m.gguf"), "x").unwrap();
    let real =
        json!({ "served_name": "real", "engine_type": "llamacpp", "local_path": "m.gguf", "device": "cpu" });
    let real = Managed::run(&owner, &real).await;
    let simulated = Managed::run(&owner, &simulated("vllm", "simulated", &[])).await;
    let metrics = page(&gateway).await;
    for (model, is) in [(&real, false), (&simulated, true)] {
        let name = model.served_name.as_str();
        assert_eq!(model.record(&owner).await["simulator"], is, "{name}");
        let shown = owner.get(&format!("/v1/models/{name}")).await.expect(200);
        assert_eq!(shown.get("simulator"), is.then_some(&json!(true)), "{shown}");
        let mut streamed = chat(name);
        streamed["stream"] = json!(true);
        // An answer, a stream, and what the engine refuses.
        let mut refused = chat(name);
        refused["temperature"] = json!("hot");
        for body in [chat(name), streamed, refused] {
            let answer = owner.post(CHAT, &body).await;
            let mark = answer.headers.get("x-gantry-simulator").map(|it| it.to_str().unwrap());
            assert_eq!(mark, is.then_some("true"), "{name}: {answer:?}");
        }
        let line = format!("gantry_model_simulated{{model=\"{name}\"}} 1");
        assert_eq!(metrics.contains(&line), is, "{metrics}");
    }
}

#[tokio::test]
async fn a_record_that_names_a_simulator_never_meets_an_engine() {
    let dir = tempfile::tempdir().unwrap();
    let engine = program(&dir, "vllm", "echo 'the engine itself'; exit 3");
    let gateway = start(Options::processes().env("PRIMARY_ENGINE_COMMAND", engine.to_str().unwrap())).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    assert_eq!(model.record(&owner).await["simulator"], true);
    assert_eq!(owner.chat("m").await.status, 200);
    drop(gateway);
    // Without a name in the record, the setting's word counts.
    let gateway = self::gateway().await;
    let owner = gateway.owner().await;
    let body =
        json!({ "served_name": "n", "engine_type": "vllm", "local_path": "simulated", "device": "cpu" });
    let model = Managed::run(&owner, &body).await;
    assert_eq!(model.record(&owner).await["simulator"], true);
}
