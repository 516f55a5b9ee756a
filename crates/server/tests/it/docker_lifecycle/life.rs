//! From created to deleted.

use gantry_testkit::{Managed, simulated, simulator};
use serde_json::{Value, json};

use super::{GANTRY, gateway};

#[tokio::test]
async fn a_model_is_started_serves_and_is_stopped() {
    if !simulator(GANTRY, "docker_lifecycle: start and stop") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        let model = Managed::create(&owner, &simulated(engine, engine, &[])).await;
        let before = model.record(&owner).await;
        assert_eq!((&before["state"], &before["state_reason"]), (&json!("stopped"), &Value::Null));
        assert_eq!(owner.chat(engine).await.code(), "model_not_running");
        assert!(model.inspect().is_none());

        let accepted = model.start(&owner).await;
        assert!(
            ["starting", "loading", "running"].contains(&accepted["state"].as_str().unwrap()),
            "{accepted}"
        );
        let again = model.command(&owner, "start").await;
        assert_eq!((again.status, again.code()), (409, "invalid_state"));
        model.reaches(&owner, "running").await;
        let listed = owner.get("/v1/models").await.expect(200);
        assert_eq!(listed["data"][0]["id"], engine, "{listed}");
        let answer = owner.chat(engine).await.expect(200);
        let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(said.starts_with("This is simulated text"), "{said}");

        let stopping = model.command(&owner, "stop").await.expect(202);
        assert!(["stopping", "stopped"].contains(&stopping["state"].as_str().unwrap()), "{stopping}");
        let stopped = model.reaches(&owner, "stopped").await;
        assert_eq!(stopped["state_reason"], Value::Null);
        assert!(model.inspect().is_none(), "the container is gone");
        let refused = owner.chat(engine).await;
        assert_eq!((refused.status, refused.code()), (503, "model_not_running"));
        assert_eq!(owner.get("/v1/models").await.expect(200)["data"], json!([]));
        model.command(&owner, "stop").await.expect(200);
        assert_eq!(
            model.timeline(&owner).await,
            [
                "stopped>starting",
                "starting>loading",
                "loading>running",
                "running>stopping",
                "stopping>stopped"
            ]
        );
    }
}

#[tokio::test]
async fn the_container_is_confined_and_holds_the_key_in_its_environment_only() {
    if !simulator(GANTRY, "docker_lifecycle: confinement") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let key = std::fs::read_to_string(gateway.data_dir().join("secrets/engine-key")).unwrap();
    let models = gateway.models_dir().canonicalize().unwrap();
    let (vllm, llamacpp) = (simulated("vllm", "a", &[]), simulated("llamacpp", "b", &[]));
    let (vllm, llamacpp) = (Managed::create(&owner, &vllm).await, Managed::create(&owner, &llamacpp).await);
    for model in [&vllm, &llamacpp] {
        model.start(&owner).await;
    }
    for (model, kind, variable) in
        [(vllm, "primary", "VLLM_API_KEY"), (llamacpp, "secondary", "LLAMA_API_KEY")]
    {
        model.reaches(&owner, "running").await;
        let mut seen = model.inspect().unwrap();
        assert_eq!(seen["Name"], format!("/{kind}-model-{}", model.id));
        let ports = seen["NetworkSettings"]["Ports"].as_object().unwrap();
        let published: Vec<_> = ports.values().flat_map(|it| it.as_array().into_iter().flatten()).collect();
        assert_eq!((published.len(), &published[0]["HostIp"]), (1, &json!("127.0.0.1")), "{ports:?}");

        let host = &seen["HostConfig"];
        assert_eq!(host["RestartPolicy"]["Name"], "no");
        assert_eq!(host["Init"], true);
        assert_eq!(host["CapDrop"], json!(["ALL"]));
        assert_eq!(host["SecurityOpt"], json!(["no-new-privileges"]));
        assert_eq!(host["Privileged"], false);
        assert_eq!(host["DeviceRequests"], Value::Null);
        assert_eq!(host["LogConfig"]["Config"], json!({ "max-file": "3", "max-size": "10m" }));
        let mounts = seen["Mounts"].as_array().unwrap();
        assert_eq!(mounts.len(), 1, "{mounts:?}");
        assert_eq!((&mounts[0]["Destination"], &mounts[0]["RW"]), (&json!("/models"), &json!(false)));
        assert_eq!(mounts[0]["Source"], models.to_str().unwrap());

        let labels = &seen["Config"]["Labels"];
        assert_eq!(labels["gantry.instance"], gateway.instance());
        assert_eq!(labels["gantry.model_id"], model.id.to_string());
        assert_eq!(labels["gantry.generation"], "1");
        assert_eq!(labels["gantry.spec_hash"].as_str().unwrap().len(), 64);

        let env = seen["Config"]["Env"].take();
        let held = format!("{variable}={key}");
        assert!(env.as_array().unwrap().iter().any(|it| *it == held), "{env}");
        assert!(!seen.to_string().contains(&key), "{seen}");
    }
}

#[tokio::test]
async fn deleting_stops_the_model_and_leaves_its_files_alone() {
    if !simulator(GANTRY, "docker_lifecycle: delete") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let file = gateway.models_dir().join("simulated");
    std::fs::write(&file, "weights").unwrap();
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let deleted = owner.delete(&format!("/admin/models/{}", model.id)).await.expect(200);
    assert_eq!(deleted, json!({ "id": model.id, "status": "deleted" }));
    assert!(model.inspect().is_none(), "its memory is free for the next one");
    assert_eq!(owner.get(&format!("/admin/models/{}", model.id)).await.code(), "not_found");
    assert_eq!(owner.chat("m").await.code(), "model_not_found");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "weights");
    // The name is free at once.
    let next = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
    assert!(next.id > model.id, "ids are not used twice");
}
