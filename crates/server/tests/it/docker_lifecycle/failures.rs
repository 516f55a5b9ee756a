//! Starts that fail, and engines that die.

use std::time::Instant;

use gantry_testkit::{Gateway, Managed, Options, docker, docker_cli, simulated, simulator};
use serde_json::json;

use super::{GANTRY, gateway};

#[tokio::test]
async fn a_start_that_fails_says_why_and_keeps_the_log() {
    if !simulator(GANTRY, "docker_lifecycle: failed starts") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let (exited, crash) = ("container_exited: exit code 1", ("CRASH_AT_START", "1"));
    let killed = "container_exited: killed (exit code 137)";
    let refused = "start_failed: the engine refuses the gateway's internal key";
    let arch = ("CRASH_LOG", "unsupported-arch");
    // Engine, name, faults, the reason that is shown, and what the log says.
    let cases = [
        ("vllm", "crash", vec![crash], exited, "not a real engine"),
        ("llamacpp", "arch", vec![crash, arch], exited, "unknown model architecture"),
        ("llamacpp", "oom", vec![("OOM", "1"), ("LOAD_SECONDS", "1")], exited, "out of memory"),
        ("vllm", "signal", vec![("CRASH_AT_START", "137")], killed, "Traceback"),
        ("vllm", "key", vec![("WRONG_KEY", "1")], refused, "Application startup complete"),
    ];
    let mut started = Vec::new();
    for (engine, name, faults, reason, logged) in cases {
        let model = Managed::create(&owner, &simulated(engine, name, &faults)).await;
        model.start(&owner).await;
        started.push((model, reason, logged));
    }
    for (model, reason, logged) in started {
        assert_eq!(model.fails(&owner).await, reason, "{}", model.served_name);
        let log = owner.get(&model.path("logs")).await.expect(200);
        assert!(log["logs"].as_str().unwrap().contains(logged), "{}: {log}", model.served_name);
        super::halted(&model).await;
        let refused = owner.chat(&model.served_name).await;
        assert_eq!((refused.status, refused.code()), (503, "model_not_running"));
        // And stopping clears it up.
        model.command(&owner, "stop").await.expect(202);
        let stopped = model.reaches(&owner, "stopped").await;
        assert_eq!(stopped["state_reason"], json!(null));
        assert!(model.inspect().is_none());
    }
}

#[tokio::test]
async fn an_engine_that_loads_for_too_long_is_given_up() {
    if !simulator(GANTRY, "docker_lifecycle: start-up timeout") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let begun = Instant::now();
    for engine in ["vllm", "llamacpp"] {
        let mut body = simulated(engine, engine, &[("LOAD_SECONDS", "600")]);
        body["startup_timeout_sec"] = json!(15);
        Managed::create(&owner, &body).await.start(&owner).await;
    }
    let models = owner.get("/admin/models").await.expect(200);
    for record in models.as_array().unwrap() {
        let model = Managed::of(record);
        assert_eq!(model.fails(&owner).await, "startup_timeout_after_15s");
        println!("{}: given up after {:?}", model.served_name, begun.elapsed());
        super::halted(&model).await;
        let ready = owner.get(&model.path("readiness")).await.expect(200);
        let detail = ready["detail"].as_str().unwrap();
        assert_eq!(ready["status"], json!("error"));
        assert!(detail.starts_with("Loading took too long: the engine was not ready within 15 s"), "{ready}");
    }
}

#[tokio::test]
async fn an_image_that_is_no_longer_allowed_does_not_start_again() {
    if !docker("docker_lifecycle: list of images") {
        return;
    }
    let options = Options::containers().env("OFFLINE_MODE", "true");
    let mut gateway =
        Gateway::start(GANTRY, options.env("ENGINE_IMAGE_ALLOWLIST", "registry.test/team/vllm")).await;
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[]);
    body["engine_image"] = json!("registry.test/team/vllm:1");
    let model = Managed::create(&owner, &body).await;
    assert!(gateway.terminate());
    gateway.set_env("ENGINE_IMAGE_ALLOWLIST", "registry.test/another/*");
    gateway.restart().await;
    let owner = gateway.owner().await;
    let preview = owner.post(&model.path("dry-run"), &json!({})).await.expect(200);
    assert_eq!(preview["valid"], false, "{preview}");
    assert!(preview["warnings"].to_string().contains("Image not allowed"), "{preview}");
    model.start(&owner).await;
    assert_eq!(
        model.fails(&owner).await,
        "start_failed: image registry.test/team/vllm:1 is not allowed: ENGINE_IMAGE_ALLOWLIST does not name it"
    );
    let logs = owner.get(&model.path("logs?diagnose=true")).await.expect(200);
    assert_eq!(logs["diagnosis"]["error_type"], "image_not_allowed", "{logs}");
}

#[tokio::test]
async fn an_image_that_cannot_be_had_is_refused_at_once() {
    if !simulator(GANTRY, "docker_lifecycle: missing image") {
        return;
    }
    let gateway = Gateway::start(GANTRY, Options::containers()).await;
    let owner = gateway.owner().await;
    let image = "localhost/gantry-engine-sim-vllm:9.9.9";
    let mut body = simulated("vllm", "m", &[]);
    body["engine_image"] = json!(image);
    let model = Managed::create(&owner, &body).await;
    let refused = model.command(&owner, "start").await;
    assert_eq!((refused.status, refused.code()), (503, "image_not_available"));
    let reason = format!(
        "start_failed: image {image} is not available locally and simulators are never pulled: `gantry engine-sim image` makes it"
    );
    assert_eq!(refused.json["error"]["message"], reason);
    assert_eq!(model.fails(&owner).await, reason);
    assert!(model.inspect().is_none());
}

#[tokio::test]
async fn an_idle_engine_that_dies_is_noticed() {
    if !simulator(GANTRY, "docker_lifecycle: idle engines that die") {
        return;
    }
    // Nobody asks the engines, neither of the two rounds nor a user: only Docker's event can tell.
    let options = Options::containers().env("HEALTH_POLL_SEC", "3600").env("MODEL_RECONCILE_SEC", "3600");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let killed = Managed::run(&owner, &simulated("vllm", "killed", &[])).await;
    let removed = Managed::run(&owner, &simulated("llamacpp", "removed", &[])).await;
    let other = Managed::run(&owner, &simulated("vllm", "other", &[])).await;
    let killed_reason = "engine_unhealthy: container killed (exit code 137)";
    // A removal begins with a kill, which may be seen first.
    let removed_reasons = [killed_reason, "engine_unhealthy: container removed"];
    for (model, command, reasons) in
        [(&killed, &["kill"] as &[_], &[killed_reason] as &[_]), (&removed, &["rm", "-f"], &removed_reasons)]
    {
        docker_cli(&[command, &[&*model.container]].concat());
        let died = Instant::now();
        let reason = model.fails(&owner).await;
        assert!(reasons.contains(&&*reason), "{reason}");
        println!("{} noticed after {:?}", model.served_name, died.elapsed());
        let refused = owner.chat(&model.served_name).await;
        assert_eq!((refused.status, refused.code()), (503, "model_not_running"), "{refused:?}");
        let log = owner.get(&model.path("logs")).await.expect(200);
        assert_eq!(log["lines"].as_i64().unwrap() > 0, model.inspect().is_some());
    }
    assert_eq!(owner.chat(&other.served_name).await.status, 200, "the others go on");
    // And it can be started again.
    killed.start(&owner).await;
    killed.reaches(&owner, "running").await;
    assert_eq!(owner.chat("killed").await.status, 200);
}

#[tokio::test]
async fn an_engine_that_hangs_is_noticed_after_three_probes() {
    if !simulator(GANTRY, "docker_lifecycle: hung engine") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("llamacpp", "m", &[])).await;
    // It still accepts connections.
    docker_cli(&["pause", &model.container]);
    let paused = Instant::now();
    assert_eq!(model.fails(&owner).await, "engine_unhealthy: 3 probes in a row got no answer");
    println!("noticed after {:?}", paused.elapsed());
    super::halted(&model).await;
}

#[tokio::test]
async fn a_model_may_be_stopped_while_it_loads() {
    if !simulator(GANTRY, "docker_lifecycle: stop while loading") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        let model = Managed::create(&owner, &simulated(engine, engine, &[("LOAD_SECONDS", "600")])).await;
        model.start(&owner).await;
        model.reaches(&owner, "loading").await;
        let asked = Instant::now();
        model.command(&owner, "stop").await.expect(202);
        model.reaches_within(&owner, "stopped", gantry_testkit::PATIENCE).await;
        println!("{engine}: stopped while loading after {:?}", asked.elapsed());
        assert!(model.inspect().is_none());
    }
}
