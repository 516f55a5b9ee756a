//! Changing what runs: apply, going back, and what shows that it is needed.

use gantry_testkit::{
    Foreign, Gateway, Managed, Options, docker_cli, eventually, inspect, sim_vllm, simulated, simulator,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{GANTRY, gateway};

#[tokio::test]
async fn applying_makes_a_new_container_with_the_new_settings() {
    if !simulator(GANTRY, "docker_lifecycle: apply") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let before = model.container_id();
    let change = json!({ "max_model_len": 777 });
    owner.patch(&format!("/admin/models/{}", model.id), &change).await.expect(200);
    assert_eq!(model.container_id(), before, "a change alone does nothing to what runs");
    assert_eq!(owner.chat("m").await.status, 200);

    model.command(&owner, "apply").await.expect(202);
    let waited = owner.chat("m").await;
    assert_eq!(waited.status, 200, "it waits for the new engine: {}", waited.text);
    let seen = model.inspect().unwrap();
    assert_ne!(seen["Id"], before);
    assert_eq!(seen["Config"]["Labels"]["gantry.generation"], "2");
    let words: Vec<_> = seen["Args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(words.windows(2).any(|it| it == ["--max-model-len", "777"]), "{words:?}");
    assert_eq!(owner.chat("m").await.status, 200);
    let context = owner.get("/v1/models/m").await.expect(200);
    assert_eq!(context["max_model_len"], 777);
    assert_eq!(gateway.containers().len(), 1);
}

#[tokio::test]
async fn settings_that_do_not_get_ready_are_rolled_back_if_wanted() {
    if !simulator(GANTRY, "docker_lifecycle: rollback") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let path = format!("/admin/models/{}", model.id);
    let broken = json!({ "max_model_len": 777, "extra_env": { "GANTRY_SIM_CRASH_AT_START": "3" } });
    owner.patch(&path, &broken).await.expect(200);
    owner.command(&model.path("apply?rollback=true")).await.expect(202);
    let record = eventually("the old settings run again", gantry_testkit::PATIENCE, async || {
        let record = model.record(&owner).await;
        (record["state"] == "running" && record["rolled_back"].is_object()).then_some(record)
    })
    .await;
    assert_eq!((&record["max_model_len"], &record["extra_env"]), (&Value::Null, &json!({})));
    assert_eq!(record["rolled_back"]["reason"], "container_exited: exit code 3");
    assert_eq!(record["rolled_back"]["settings"]["max_model_len"], 777, "what was edited is not lost");
    assert_eq!(owner.chat("m").await.status, 200);
    assert!(
        model.timeline(&owner).await.ends_with(&[
            "starting>failed".to_owned(),
            "failed>starting".to_owned(),
            "starting>loading".to_owned(),
            "loading>running".to_owned()
        ]) || model.timeline(&owner).await.contains(&"loading>failed".to_owned())
    );

    // Without the wish it stays failed, and the settings stay as they were written.
    owner.patch(&path, &broken).await.expect(200);
    model.command(&owner, "apply").await.expect(202);
    assert_eq!(model.fails(&owner).await, "container_exited: exit code 3");
    let record = model.record(&owner).await;
    assert_eq!((&record["max_model_len"], &record["rolled_back"]), (&json!(777), &Value::Null));
}

#[tokio::test]
async fn an_answer_that_is_under_way_ends_before_its_engine_is_replaced() {
    if !simulator(GANTRY, "docker_lifecycle: drain") {
        return;
    }
    // The answer takes 13 s, and longer on a busy machine.
    let options = Options::containers().env("DRAIN_TIMEOUT_SEC", "120");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let slow = simulated("vllm", "m", &[("TOKENS_PER_SEC", "15")]);
    let model = Managed::create(&owner, &slow).await;
    // Containers that are there when its own starts, and end in the middle of the answer. A bridge without an address of
    // its own, as that of these tests once was, then takes another one, and nobody is heard for 13 or 26 seconds.
    let neighbour = |n: usize| {
        let name = format!("{}-neighbour-{n}", model.container);
        Foreign::run(&name, &[], sim_vllm(), &["serve", "sim:x"])
    };
    let neighbours: Vec<_> = (0..4).map(neighbour).collect();
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
    let before = model.container_id();
    let body = json!({
        "model": "m", "stream": true, "max_tokens": 200, "messages": [{ "role": "user", "content": "Hi" }],
    });
    let mut stream = owner.stream("/v1/chat/completions", &body).await;
    stream.next().await.unwrap().expect("the answer begins");
    model.command(&owner, "apply").await.expect(202);
    assert_eq!(model.record(&owner).await["state"], "stopping");
    drop(neighbours);
    let mut last = String::new();
    while let Some(event) =
        timeout(gantry_testkit::PATIENCE, stream.next()).await.expect("it goes on").unwrap()
    {
        assert!(!event.contains("\"error\""), "{event}");
        last = event;
    }
    assert_eq!(last, "[DONE]", "the whole answer came");
    model.reaches(&owner, "running").await;
    assert_ne!(model.container_id(), before);
}

#[tokio::test]
async fn a_record_shows_that_it_differs_from_what_runs() {
    if !simulator(GANTRY, "docker_lifecycle: drift") {
        return;
    }
    let again = format!("{}-again", sim_vllm());
    docker_cli(&["tag", sim_vllm(), &again]);
    let options =
        Options::containers().env("PRIMARY_ENGINE_IMAGE", sim_vllm()).env("MODEL_RECONCILE_SEC", "1");
    let mut gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[]);
    body.as_object_mut().unwrap().remove("engine_image");
    let model = Managed::run(&owner, &body).await;
    let path = format!("/admin/models/{}", model.id);
    let edit = async |change: Value| owner.patch(&path, &change).await.expect(200);
    assert_eq!(model.record(&owner).await["needs_apply"], false);
    let changed = edit(json!({ "max_model_len": 777 })).await;
    assert_eq!(changed["needs_apply"], true);
    assert_eq!(changed["needs_apply_reason"], "its settings were changed since it was started");
    assert_eq!(edit(json!({ "max_model_len": null })).await["needs_apply"], false);
    let own = edit(json!({ "request_timeout_sec": 7 })).await;
    assert_eq!(own["needs_apply"], false, "what the gateway does itself is in force at once");
    drop(owner);

    // Another default image in the gateway's settings.
    gateway.terminate();
    gateway.set_env("PRIMARY_ENGINE_IMAGE", &again);
    gateway.restart().await;
    let owner = gateway.owner().await;
    let reason = eventually("the difference is seen", gantry_testkit::PATIENCE, async || {
        let record = model.record(&owner).await;
        record["needs_apply_reason"].as_str().map(str::to_owned)
    });
    assert!(reason.await.starts_with("the gateway's settings or the engine's image changed"));
    assert_eq!(owner.chat("m").await.status, 200, "it goes on serving");
    model.command(&owner, "apply").await.expect(202);
    model.reaches(&owner, "running").await;
    assert_eq!(model.record(&owner).await["needs_apply"], false);
}

#[tokio::test]
async fn containers_of_ours_without_a_record_are_stopped_and_others_are_not() {
    if !simulator(GANTRY, "docker_lifecycle: orphans") {
        return;
    }
    let options = Options::containers().env("MODEL_RECONCILE_SEC", "1");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let run = |id: i64, instance: &str| {
        let labels = [
            format!("gantry.instance={instance}"),
            format!("gantry.model_id={id}"),
            "gantry.generation=1".to_owned(),
        ];
        let options: Vec<&str> = labels.iter().flat_map(|it| ["--label", it]).collect();
        let args = ["serve", "sim:x"];
        Foreign::run(&format!("primary-model-{id}"), &options, sim_vllm(), &args)
    };
    let (orphan, other) = (run(model.id + 1, &gateway.instance()), run(model.id + 2, "somebody-else"));
    eventually("the orphan is removed", gantry_testkit::PATIENCE, async || {
        inspect(&orphan.0).is_none().then_some(())
    })
    .await;
    let other = inspect(&other.0).expect("another gateway's stays");
    assert_eq!(other["State"]["Status"], "running");
    assert_eq!(owner.chat("m").await.status, 200);
    assert!(gateway.log().contains("belongs to no record"), "it is reported");
}
