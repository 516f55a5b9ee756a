//! Whose a container is: ours are replaced, those of others are never touched.

use std::time::Instant;

use gantry_testkit::{
    Foreign, Gateway, Managed, ModelIds, Options, eventually, inspect, sim_vllm, simulated, simulator,
};

use super::{GANTRY, gateway};

#[tokio::test]
async fn a_leftover_container_of_ours_makes_room() {
    if !simulator(GANTRY, "docker_lifecycle: leftover container") {
        return;
    }
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
    // As after a restore of the database from a backup.
    let labels = [
        format!("gantry.instance={}", gateway.instance()),
        format!("gantry.model_id={}", model.id),
        "gantry.generation=7".to_owned(),
    ];
    let labels: Vec<&str> = labels.iter().flat_map(|it| ["--label", it]).collect();
    gateway.kill();
    let old = Foreign::run(&model.container, &labels, sim_vllm(), &["sim:old"]);
    gateway.restart().await;
    let owner = gateway.owner().await;
    // Nobody wants it to run, so it goes by itself; a start that comes first waits for that.
    eventually("the start is accepted", gantry_testkit::PATIENCE, async || {
        let answer = model.command(&owner, "start").await;
        assert!(matches!(answer.status, 202 | 409), "{answer:?}");
        (answer.status == 202).then_some(())
    })
    .await;
    model.reaches(&owner, "running").await;
    assert!(inspect(&old.0).is_none());
    assert_eq!(owner.chat("m").await.status, 200);
}

#[tokio::test]
async fn a_container_of_another_program_is_never_touched() {
    if !simulator(GANTRY, "docker_lifecycle: foreign container") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
    let foreign = Foreign::run(&model.container, &[], sim_vllm(), &["sim:foreign"]);
    model.start(&owner).await;
    let reason = format!("start_failed: container name `{}` is in use by another program", model.container);
    let begun = Instant::now();
    assert_eq!(model.fails(&owner).await, reason);
    println!("a taken name: failed after {:?}", begun.elapsed());
    assert_eq!(owner.get(&model.path("logs")).await.expect(200)["logs"], "", "its log is not ours to show");
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    owner.delete(&format!("/admin/models/{}", model.id)).await.expect(200);
    let seen = inspect(&foreign.0).expect("it is still there");
    assert_eq!((&seen["State"]["Running"], &seen["RestartCount"]), (&true.into(), &0.into()));
}

#[tokio::test]
async fn two_gateways_on_one_docker_engine_leave_each_other_alone() {
    if !simulator(GANTRY, "docker_lifecycle: two gateways") {
        return;
    }
    let first = gateway().await;
    let owner = first.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "first", &[])).await;
    let id = model.container_id();

    let second =
        Gateway::start(GANTRY, Options { model_ids: ModelIds::From(model.id), ..Options::containers() })
            .await;
    let other = second.owner().await;
    let clash = Managed::create(&other, &simulated("vllm", "second", &[])).await;
    assert_eq!(clash.id, model.id);
    clash.start(&other).await;
    let reason = clash.fails(&other).await;
    assert!(reason.contains("is in use by another program"), "{reason}");
    assert_eq!(other.chat("second").await.code(), "model_not_running");
    // The next id is free, and both serve.
    let beside = Managed::run(&other, &simulated("llamacpp", "beside", &[])).await;
    assert_eq!(other.chat("beside").await.status, 200);
    owner.command(&model.path("stop")).await.expect(202);
    model.reaches(&owner, "stopped").await;
    assert_eq!(other.chat("beside").await.status, 200);
    // Now the name is free.
    clash.start(&other).await;
    clash.reaches(&other, "running").await;
    assert_ne!(clash.container_id(), id);
    drop(first);
    assert!(clash.inspect().is_some() && beside.inspect().is_some());
}
