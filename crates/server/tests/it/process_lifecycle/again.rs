//! What starts again without an operator: after failures, and after the machine or the gateway was away.

use gantry_testkit::{Client, Gateway, Managed, Options, PATIENCE, eventually, kill_process, simulated};
use serde_json::{Value, json};

use super::{gateway, process, supervisor};
use crate::{
    monitoring::{page, value},
    support::start,
};

fn with(mut body: Value, settings: &Value) -> Value {
    for (name, value) in settings.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// What the timeline says about its latest entries, newest first.
async fn details(owner: &Client, model: &Managed) -> Vec<String> {
    let events = owner.get(&model.path("events")).await.expect(200);
    let detail = |it: &Value| it["detail"].as_str().unwrap_or_default().to_owned();
    events.as_array().unwrap().iter().map(detail).collect()
}

#[tokio::test]
async fn an_engine_that_dies_is_started_again_if_the_record_says_so() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let settings = json!({ "restart_policy": "on_failure" });
    let again = Managed::run(&owner, &with(simulated("vllm", "again", &[]), &settings)).await;
    let never = Managed::run(&owner, &simulated("llamacpp", "never", &[])).await;
    assert_eq!(never.record(&owner).await["restart"], Value::Null);
    // An edit that nobody applied is not what is started.
    owner.patch(&format!("/admin/models/{}", again.id), &json!({ "max_model_len": 777 })).await.expect(200);
    let before = process(&gateway, &again).0;
    for model in [&again, &never] {
        kill_process(process(&gateway, model).0);
    }
    assert_eq!(never.fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
    again.has_been(&owner, "running", 2).await;
    assert_ne!(process(&gateway, &again).0, before);
    assert_eq!(owner.chat("again").await.status, 200);
    let record = again.record(&owner).await;
    assert_eq!(
        (&record["restart"]["attempts"], &record["restart"]["given_up"], &record["needs_apply"]),
        (&json!(1), &json!(false), &json!(true)),
        "{record}"
    );
    let told = details(&owner, &again).await;
    assert!(told.iter().any(|it| it.contains("started again by its restart policy (1 of 5")), "{told:?}");
    assert_eq!(never.record(&owner).await["state"], "failed");
    let line = "gantry_model_restarts_total{model=\"again\",reason=\"engine_unhealthy\"}";
    assert!(value(&page(&gateway).await, line) > 0.5);
    // A command of an operator begins anew, and may come at any time.
    again.command(&owner, "stop").await.expect(202);
    again.reaches(&owner, "stopped").await;
    assert_eq!(again.record(&owner).await["restart"]["attempts"], 0);
}

#[tokio::test]
async fn a_model_that_never_gets_ready_is_given_up() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let settings = json!({ "restart_policy": "on_failure", "restart_limit": 2 });
    let body = with(simulated("vllm", "m", &[("CRASH_AT_START", "3")]), &settings);
    let model = Managed::create(&owner, &body).await;
    model.start(&owner).await;
    let record = eventually("it is given up", PATIENCE, async || {
        let record = model.record(&owner).await;
        (record["restart"]["given_up"] == true).then_some(record)
    });
    let record = record.await;
    assert_eq!(
        (&record["state"], &record["state_reason"], &record["restart"]["attempts"]),
        (&json!("failed"), &json!("container_exited: exit code 3"), &json!(2))
    );
    assert_eq!(record["restart"]["next_at"], Value::Null);
    eventually("metrics tell it", PATIENCE, async || {
        (value(&page(&gateway).await, "gantry_models_given_up") > 0.5).then_some(())
    })
    .await;
    let steps = model.timeline(&owner).await;
    assert_eq!(steps.iter().filter(|it| *it == "failed>starting").count(), 2, "{steps:?}");
    // A user starts the model, and the event says so.
    model.start(&owner).await;
    let told = details(&owner, &model).await;
    let expected = "start by owner, after 2 starts by the restart policy, which gave up";
    assert!(told.iter().any(|it| it == expected), "{told:?}");
    // A failure that a start can't fix is not retried, whatever the policy.
    let settings = json!({ "restart_policy": "on_failure", "autostart": true, "engine_image": null });
    let body = json!({ "served_name": "absent", "engine_type": "llamacpp", "local_path": "absent.gguf" });
    let absent = Managed::create(&owner, &with(body, &settings)).await;
    let answer = absent.command(&owner, "start").await;
    if answer.status == 422 {
        assert_eq!(
            (answer.code(), &answer.json["error"]["param"]),
            ("model_file_missing", &json!("local_path"))
        );
        let record = absent.record(&owner).await;
        assert_eq!((&record["state"], &record["restart"]["next_at"]), (&json!("failed"), &Value::Null));
    }
    model.command(&owner, "stop").await.expect(202);
}

/// The gateway, the engines and their supervisors end at once, as they do with the machine.
fn power_cut(gateway: &mut Gateway, models: &[&Managed]) {
    let pids: Vec<_> =
        models.iter().flat_map(|it| [supervisor(gateway, it), process(gateway, it).0]).collect();
    gateway.kill();
    pids.into_iter().for_each(kill_process);
}

#[tokio::test]
async fn after_a_power_cut_what_was_to_run_runs_again_if_the_record_says_so() {
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let settings = json!({ "autostart": true });
    let auto = Managed::run(&owner, &with(simulated("vllm", "auto", &[]), &settings)).await;
    let plain = Managed::run(&owner, &simulated("llamacpp", "plain", &[])).await;
    let off = Managed::run(&owner, &with(simulated("vllm", "off", &[]), &settings)).await;
    off.command(&owner, "stop").await.expect(202);
    off.reaches(&owner, "stopped").await;
    // One that failed before, and whose container is gone when the gateway comes up.
    let broken = Managed::create(&owner, &simulated("vllm", "broken", &[("CRASH_AT_START", "1")])).await;
    broken.start(&owner).await;
    broken.fails(&owner).await;
    power_cut(&mut gateway, &[&auto, &plain]);
    std::fs::remove_dir_all(gateway.engine_dir(&broken.container)).unwrap();
    gateway.restart().await;

    let owner = gateway.owner().await;
    auto.has_been(&owner, "running", 2).await;
    assert_eq!(owner.chat("auto").await.status, 200);
    let told = details(&owner, &auto).await;
    assert!(told.iter().any(|it| it.starts_with("started again by `autostart`")), "{told:?}");
    assert_eq!(plain.fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
    let diagnosed = eventually("it is diagnosed", PATIENCE, async || {
        let record = plain.record(&owner).await;
        record["diagnosis"].is_object().then_some(record)
    });
    let diagnosis = diagnosed.await["diagnosis"].clone();
    assert_eq!(diagnosis["error_type"], "ended_unwatched", "{diagnosis}");
    assert_eq!(diagnosis["field"], "autostart", "{diagnosis}");
    let logs = owner.get(&plain.path("logs?diagnose=true")).await.expect(200);
    assert_eq!(logs["diagnosis"]["error_type"], "ended_unwatched", "{logs}");
    assert_eq!(off.record(&owner).await["state"], "stopped");
    let record = broken.reaches(&owner, "stopped").await;
    assert_eq!(record["state_reason"], "container_not_found", "{record}");
}

#[tokio::test]
async fn what_was_stopped_with_the_gateway_runs_again_with_it() {
    let options = Options::processes().env("STOP_MODELS_ON_SHUTDOWN", "true");
    let mut gateway = start(options).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &with(simulated("vllm", "m", &[]), &json!({ "autostart": true }))).await;
    assert!(gateway.terminate(), "{}", gateway.log());
    gateway.restart().await;
    model.has_been(&gateway.owner().await, "running", 2).await;
}

#[tokio::test]
async fn a_start_while_the_model_is_stopped_follows_the_stop() {
    let options = Options::processes().env("STOP_TIMEOUT_SEC", "3");
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let before = process(&gateway, &model).0;
    // A stopped process can't react to SIGTERM: the stop takes its whole grace.
    let frozen = std::process::Command::new("kill").args(["-STOP", &before.to_string()]).status();
    assert!(frozen.unwrap().success());
    model.command(&owner, "stop").await.expect(202);
    model.start(&owner).await;
    model.has_been(&owner, "running", 2).await;
    assert_ne!(process(&gateway, &model).0, before);
    assert_eq!(owner.chat("m").await.status, 200);
    let refused = model.command(&owner, "start").await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_state"));
}

#[tokio::test]
async fn a_roll_back_whose_names_are_taken_says_so() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let body = with(simulated("vllm", "m", &[]), &json!({ "lora_adapters": ["tuned=adapters/tuned"] }));
    let model = Managed::run(&owner, &body).await;
    let change = json!({ "lora_adapters": null, "extra_env": { "GANTRY_SIM_CRASH_AT_START": "1" } });
    owner.patch(&format!("/admin/models/{}", model.id), &change).await.expect(200);
    let other = Managed::create(&owner, &simulated("llamacpp", "tuned", &[])).await;
    owner.command(&model.path("apply?rollback=true")).await.expect(202);
    eventually("it is told", PATIENCE, async || {
        let told = details(&owner, &model).await;
        let why = format!("the model `tuned` (id {}) is served as `tuned`", other.id);
        told.iter().any(|it| it.starts_with("not rolled back") && it.contains(&why)).then_some(())
    })
    .await;
    let record = model.record(&owner).await;
    assert_eq!((&record["state"], &record["rolled_back"]), (&json!("failed"), &Value::Null), "{record}");
    assert_eq!(record["lora_adapters"], Value::Null);
}
