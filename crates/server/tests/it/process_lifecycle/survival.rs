//! The gateway ends and comes back; the models are what they were, and nothing runs that nobody knows of.

use gantry_testkit::{
    Managed, Options, PATIENCE, engine_processes, eventually, kill_process, lives, simulated,
};
use serde_json::{Value, json};

use super::{gateway, nothing_left, process, supervisor};
use crate::support::start;

#[tokio::test]
async fn running_models_are_adopted_after_a_stop_and_after_a_kill() {
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let models = [
        Managed::run(&owner, &simulated("vllm", "a", &[])).await,
        Managed::run(&owner, &simulated("llamacpp", "b", &[])).await,
    ];
    let before = [process(&gateway, &models[0]), process(&gateway, &models[1])];
    let (_, key) = owner.new_key(&json!({})).await;
    drop(owner);
    for life in ["SIGTERM", "SIGKILL"] {
        if life == "SIGTERM" {
            assert!(gateway.terminate(), "{}", gateway.log());
        } else {
            gateway.kill();
        }
        assert!(before.iter().all(|(pid, _)| lives(*pid)), "{life}: models outlive the gateway");
        gateway.restart().await;
        let owner = gateway.owner().await;
        for model in &models {
            let record = model.reaches(&owner, "running").await;
            assert_eq!(record["state_reason"], Value::Null);
            eventually("it answers", PATIENCE, async || {
                (owner.chat(&model.served_name).await.status == 200).then_some(())
            })
            .await;
            assert_eq!(model.timeline(&owner).await.len(), 3, "{life}: nothing happened to it");
        }
        let after = [process(&gateway, &models[0]), process(&gateway, &models[1])];
        assert_eq!(before, after, "{life}: the same processes, not started again");
        assert_eq!(key.at(&gateway.url).chat("a").await.status, 200, "{life}: keys go on working");
    }
    // An adopted engine is watched, and can be stopped.
    let owner = gateway.owner().await;
    kill_process(before[0].0);
    assert_eq!(models[0].fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
    models[1].command(&owner, "stop").await.expect(202);
    models[1].reaches(&owner, "stopped").await;
    nothing_left(&gateway).await;
}

#[tokio::test]
async fn what_happened_to_processes_meanwhile_is_found_out_at_start() {
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let died = Managed::run(&owner, &simulated("vllm", "died", &[])).await;
    let crashed = Managed::run(&owner, &simulated("vllm", "crashed", &[])).await;
    let lost = Managed::run(&owner, &simulated("llamacpp", "lost", &[])).await;
    let loads = Managed::create(&owner, &simulated("llamacpp", "loads", &[("LOAD_SECONDS", "20")])).await;
    loads.start(&owner).await;
    loads.reaches(&owner, "loading").await;
    let orphan = process(&gateway, &lost).0;
    gateway.kill();
    kill_process(process(&gateway, &died).0);
    kill_process(supervisor(&gateway, &crashed));
    std::fs::remove_dir_all(gateway.engine_dir(&lost.container)).unwrap();
    gateway.restart().await;

    let owner = gateway.owner().await;
    for model in [&died, &crashed] {
        assert_eq!(model.fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
    }
    // Its record is gone, so nobody could ever stop it: it is ended.
    assert_eq!(lost.reaches(&owner, "stopped").await["state_reason"], "container_not_found");
    eventually("the orphan is ended", PATIENCE, async || (!lives(orphan)).then_some(())).await;
    loads.reaches(&owner, "running").await;
    for model in [&died, &crashed, &lost] {
        model.start(&owner).await;
        model.reaches(&owner, "running").await;
    }
    assert_eq!(engine_processes(&gateway.instance()).len(), 8, "four supervisors and four engines");
}

/// At whatever moment the gateway is killed, afterwards there is one engine and it serves.
#[tokio::test]
async fn a_kill_in_the_middle_of_a_start_leaves_one_engine() {
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
    let dir = gateway.engine_dir(&model.container);
    let moments: [(&str, &dyn Fn() -> bool); 4] = [
        ("accepted", &|| true),
        ("noted down", &|| dir.join("instance.json").exists()),
        ("supervised", &|| dir.join("lock").exists()),
        ("started", &|| dir.join("state.json").exists()),
    ];
    let mut owner = owner;
    for (moment, come) in moments {
        model.start(&owner).await;
        // Without a pause: these moments are milliseconds apart.
        while !come() {
            tokio::task::yield_now().await;
        }
        gateway.kill_and_restart().await;
        owner = gateway.owner().await;
        model.reaches(&owner, "running").await;
        eventually("it answers", PATIENCE, async || (owner.chat("m").await.status == 200).then_some(()))
            .await;
        let all = engine_processes(&gateway.instance());
        assert_eq!(all.len(), 2, "killed when {moment}: {all:?}");
        model.command(&owner, "stop").await.expect(202);
        model.reaches(&owner, "stopped").await;
        nothing_left(&gateway).await;
    }
}

#[tokio::test]
async fn models_stop_with_the_gateway_if_the_operator_wants_that() {
    let mut gateway = start(Options::processes().env("STOP_MODELS_ON_SHUTDOWN", "true")).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    assert!(gateway.terminate(), "{}", gateway.log());
    assert!(engine_processes(&gateway.instance()).is_empty());
    gateway.restart().await;
    let owner = gateway.owner().await;
    assert_eq!(
        model.reaches(&owner, "stopped").await["state_reason"],
        Value::Null,
        "the gateway stopped it itself"
    );
    let timeline = owner.get(&model.path("events")).await.expect(200);
    assert_eq!(
        (&timeline[0]["to"], &timeline[0]["detail"]),
        (&json!("stopped"), &json!("stopped with the gateway"))
    );
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
}
