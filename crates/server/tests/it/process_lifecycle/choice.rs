//! Which runtime a gateway takes, and how it says so.

use gantry_testkit::{Managed, Options, simulated};
use serde_json::Value;

use super::{gateway, process};
use crate::support::start;

async fn runtime(gateway: &gantry_testkit::Gateway) -> Value {
    gateway.client().get("/readyz").await.expect(200)["runtime"].clone()
}

#[tokio::test]
async fn processes_are_named_by_readyz_and_by_the_log() {
    let gateway = gateway().await;
    let ready = gateway.client().get("/readyz").await.expect(200);
    assert_eq!((&ready["status"], &ready["runtime"]), (&"ready".into(), &"process".into()), "{ready}");
    let log = gateway.log();
    assert!(log.contains("engines run as processes: CONTAINER_RUNTIME says so"), "{log}");
    assert!(log.contains("the simulator runs in its place"), "{log}");
}

#[tokio::test]
async fn a_named_docker_engine_is_wanted_also_while_it_is_away() {
    let gateway = start(Options::default().env("CONTAINER_HOST", "unix:///nonexistent.sock")).await;
    let ready = gateway.client().get("/readyz").await.expect(200);
    assert_eq!((&ready["status"], &ready["runtime"]), (&"degraded".into(), &"docker".into()), "{ready}");
}

#[tokio::test]
async fn without_a_word_docker_is_taken_if_it_answers_and_running_models_are_never_left_behind() {
    // Without DOCKER_HOST only the default socket counts.
    let auto = |options: Options| options.env("DOCKER_HOST", "").env("CONTAINER_RUNTIME", "auto");
    let fresh = start(auto(Options::default())).await;
    let expected = if std::path::Path::new("/var/run/docker.sock").exists() { "docker" } else { "process" };
    assert_eq!(runtime(&fresh).await, expected);

    // A Docker engine that comes later does not make the gateway forget its processes.
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let before = process(&gateway, &model);
    assert!(gateway.terminate());
    gateway.set_env("CONTAINER_RUNTIME", "auto");
    gateway.set_env("DOCKER_HOST", "");
    gateway.restart().await;
    assert_eq!(runtime(&gateway).await, "process");
    let log = gateway.log();
    assert!(log.contains("models were started with it"), "{log}");
    model.reaches(&gateway.owner().await, "running").await;
    assert_eq!(process(&gateway, &model), before);
}
