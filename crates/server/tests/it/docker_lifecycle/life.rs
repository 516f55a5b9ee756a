//! From created to deleted.

use std::os::unix::fs::MetadataExt;

use gantry_testkit::{Gateway, Managed, Options, docker_cli, eventually, simulated, simulator};
use secrecy::ExposeSecret;
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
async fn an_engine_can_be_another_user_and_is_held_to_what_the_record_says() {
    if !simulator(GANTRY, "docker_lifecycle: limits of a container") {
        return;
    }
    let options = Options::containers().env("ENGINE_CONTAINER_USER", "2000:2001");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[]);
    body["memory_limit_gib"] = json!(2);
    body["read_only_root"] = json!(true);
    let model = Managed::run(&owner, &body).await;
    assert_eq!(owner.chat("m").await.status, 200);
    let seen = model.inspect().unwrap();
    let host = &seen["HostConfig"];
    assert_eq!(seen["Config"]["User"], "2000:2001");
    assert_eq!((&host["Memory"], &host["ReadonlyRootfs"]), (&json!(2_i64 << 30), &json!(true)), "{host}");
    assert!(host["Tmpfs"]["/tmp"].as_str().unwrap().contains("exec"), "{host}");
    // The network goes with the last container, and is made again for the next one.
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    let network = format!("name=gantry-{}-local", gateway.instance());
    eventually("the network is removed", gantry_testkit::PATIENCE, async || {
        docker_cli(&["network", "ls", "-q", "--filter", &network]).is_empty().then_some(())
    })
    .await;
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
    assert_eq!(owner.chat("m").await.status, 200);
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
        assert_eq!((&host["CapDrop"], &host["CapAdd"]), (&json!(["ALL"]), &Value::Null));
        let own = std::fs::metadata("/proc/self").unwrap();
        assert_eq!(seen["Config"]["User"], format!("{}:{}", own.uid(), own.gid()));
        // Local files: a network without internet, in which engines don't reach each other.
        let network = format!("gantry-{}-local", gateway.instance());
        assert_eq!(host["NetworkMode"], network);
        let format = "{{json .Options}}";
        let options: Value =
            serde_json::from_str(&docker_cli(&["network", "inspect", &network, "--format", format])).unwrap();
        assert_eq!(options["com.docker.network.bridge.enable_icc"], "false", "{options}");
        assert_eq!(options["com.docker.network.bridge.enable_ip_masquerade"], "false", "{options}");
        assert_eq!(host["ReadonlyRootfs"], kind == "secondary");
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
        let own =
            gantry_domain::engine::instance_key(&key.as_str().into(), gantry_domain::ModelId(model.id), 1);
        let own = own.expose_secret();
        let held = format!("{variable}={own}");
        assert!(env.as_array().unwrap().iter().any(|it| *it == held), "{env}");
        assert!(!seen.to_string().contains(own), "{seen}");
        assert!(!env.to_string().contains(&key), "the internal key stays with the gateway");
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
