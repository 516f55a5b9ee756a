//! The gateway ends and comes back; the models are what they were.

use std::time::Instant;

use gantry_testkit::{
    Client, Gateway, Managed, Options, PATIENCE, docker_cli, eventually, simulated, simulator,
};
use serde_json::{Value, json};

use super::{GANTRY, gateway};

/// State, container and port of a model that runs and answers.
async fn running(owner: &Client, model: &Managed) -> (String, String) {
    let record = model.reaches(owner, "running").await;
    assert_eq!(record["state_reason"], Value::Null);
    let answered = eventually("it answers again", PATIENCE, async || {
        (owner.chat(&model.served_name).await.status == 200).then_some(())
    });
    answered.await;
    let seen = model.inspect().unwrap();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    (text(&seen["Id"]), text(&seen["State"]["StartedAt"]))
}

#[tokio::test]
async fn running_models_are_adopted_after_a_stop_and_after_a_kill() {
    if !simulator(GANTRY, "docker_lifecycle: adoption") {
        return;
    }
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let models = [
        Managed::run(&owner, &simulated("vllm", "a", &[])).await,
        Managed::run(&owner, &simulated("llamacpp", "b", &[])).await,
    ];
    let before = [running(&owner, &models[0]).await, running(&owner, &models[1]).await];
    let (_, key) = owner.new_key(&json!({})).await;
    let token = key.clone();
    drop((owner, key));
    for life in ["SIGTERM", "SIGKILL"] {
        if life == "SIGTERM" {
            assert!(gateway.terminate(), "{}", gateway.log());
        } else {
            gateway.kill();
        }
        let begun = Instant::now();
        gateway.restart().await;
        let first = token.at(&gateway.url);
        assert_eq!(first.chat("a").await.status, 200, "{life}: the first request");
        println!("{life}: the first request is answered {:?} after the start", begun.elapsed());
        let owner = gateway.owner().await;
        let after = [running(&owner, &models[0]).await, running(&owner, &models[1]).await];
        assert_eq!(before, after, "{life}: the same containers, not started again");
        assert_eq!(models[0].timeline(&owner).await.len(), 3, "{life}: nothing happened to them");
        assert_eq!(token.at(&gateway.url).chat("a").await.status, 200, "{life}: keys go on working");
    }
}

#[tokio::test]
async fn what_happened_to_containers_meanwhile_is_found_out_at_start() {
    if !simulator(GANTRY, "docker_lifecycle: changes while the gateway was down") {
        return;
    }
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let removed = Managed::run(&owner, &simulated("vllm", "removed", &[])).await;
    let died = Managed::run(&owner, &simulated("vllm", "died", &[])).await;
    let loads = Managed::create(&owner, &simulated("llamacpp", "loads", &[("LOAD_SECONDS", "20")])).await;
    loads.start(&owner).await;
    loads.reaches(&owner, "loading").await;
    assert!(gateway.terminate());
    docker_cli(&["rm", "-f", &removed.container]);
    docker_cli(&["kill", &died.container]);
    let begun = Instant::now();
    gateway.restart().await;

    let owner = gateway.owner().await;
    let record = removed.reaches(&owner, "stopped").await;
    assert_eq!(record["state_reason"], "container_not_found");
    let refused = owner.chat("removed").await;
    assert_eq!((refused.status, refused.code()), (503, "model_not_running"));
    assert_eq!(died.fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
    loads.reaches(&owner, "running").await;
    assert_eq!(owner.chat("loads").await.status, 200);
    // Both can be started again.
    println!("all is known {:?} after the start", begun.elapsed());
    for model in [&removed, &died] {
        model.start(&owner).await;
    }
    for model in [&removed, &died] {
        assert_eq!(model.reaches(&owner, "running").await["state_reason"], Value::Null);
    }
}

#[tokio::test]
async fn models_stop_with_the_gateway_if_the_operator_wants_that() {
    if !simulator(GANTRY, "docker_lifecycle: STOP_MODELS_ON_SHUTDOWN") {
        return;
    }
    let mut gateway =
        Gateway::start(GANTRY, Options::containers().env("STOP_MODELS_ON_SHUTDOWN", "true")).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    assert!(gateway.terminate(), "{}", gateway.log());
    assert!(gateway.containers().is_empty());
    gateway.restart().await;
    let owner = gateway.owner().await;
    let record = model.reaches(&owner, "stopped").await;
    assert_eq!(record["state_reason"], Value::Null, "the gateway stopped it itself");
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
}

#[tokio::test]
async fn an_engine_that_was_restarted_by_hand_may_load_again() {
    if !simulator(GANTRY, "docker_lifecycle: restart by hand") {
        return;
    }
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[("LOAD_SECONDS", "15")])).await;
    let (id, started) = running(&owner, &model).await;
    let address = model.engine().url;
    // Nobody sees it: it is found with another port, and loading.
    gateway.kill();
    docker_cli(&["restart", "-t", "0", &model.container]);
    gateway.restart().await;
    let owner = gateway.owner().await;
    model.has_been(&owner, "loading", 2).await;
    let (same, later) = running(&owner, &model).await;
    assert_eq!(same, id);
    assert_ne!((later, model.engine().url), (started, address));
    // The gateway sees its end, or only the new life: the state is true in either case.
    docker_cli(&["restart", "-t", "0", &model.container]);
    let settled = eventually("it settles", PATIENCE, async || {
        let record = model.record(&owner).await;
        match record["state"].as_str().unwrap() {
            "failed" if model.inspect().unwrap()["State"]["Running"] == false => Some(record),
            "running" if owner.chat("m").await.status == 200 => Some(record),
            _ => None,
        }
    });
    println!("{}", settled.await["state_reason"]);
}
