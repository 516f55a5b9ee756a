//! The diagnosis of a failed start when the container runtime or the gateway gets in its way.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    thread,
};

use gantry_testkit::{Client, Gateway, Managed, Options, eventually, simulated, simulator, skip};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::GANTRY;

/// A door to the Docker engine at `engine`, through which no log comes; lives as long as the test's process.
fn door_without_logs(dir: &TempDir, engine: String) -> String {
    let path = dir.path().join("docker.sock");
    let door = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for client in door.incoming().map_while(Result::ok) {
            let Ok(engine) = UnixStream::connect(&engine) else { continue };
            let (back, answer) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
            thread::spawn(move || pass(client, engine, |it| it.windows(6).any(|it| it == b"/logs?")));
            thread::spawn(move || pass(answer, back, |_| false));
        }
    });
    format!("unix://{}", path.display())
}

/// Passes bytes on until `swallow` says that from here on they get lost.
fn pass(mut from: UnixStream, mut to: UnixStream, swallow: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 16 << 10];
    let mut lost = false;
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        lost |= swallow(&buffer[..n]);
        if !lost && to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

async fn diagnosis(owner: &Client, model: &Managed) -> Value {
    eventually("a diagnosis", gantry_testkit::PATIENCE, async || {
        let found = model.record(owner).await["diagnosis"].clone();
        found.is_object().then_some(found)
    })
    .await
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "where the tests' Docker engine is")]
async fn a_log_that_cannot_be_had_costs_the_diagnosis_only() {
    let test = "docker_lifecycle: failed starts without a log";
    if !simulator(GANTRY, test) {
        return;
    }
    let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let Some(engine) = host.strip_prefix("unix://") else {
        skip(test, "the Docker engine has no socket");
        return;
    };
    let dir = TempDir::new().unwrap();
    let door = door_without_logs(&dir, engine.to_owned());
    let mut gateway = Gateway::start(GANTRY, Options::containers().env("DOCKER_HOST", &door)).await;
    let owner = gateway.owner().await;
    let faults = [("CRASH_AT_START", "1"), ("CRASH_LOG", "unsupported-arch")];
    let model = Managed::create(&owner, &simulated("llamacpp", "m", &faults)).await;
    model.start(&owner).await;
    let reason = "container_exited: exit code 1";
    assert_eq!(model.fails(&owner).await, reason);
    // Neither the state nor who looks at it waits for the log.
    assert_eq!(model.record(&owner).await["diagnosis"], json!(null));
    let ready = owner.get(&model.path("readiness")).await.expect(200);
    assert_eq!((&ready["status"], &ready["detail"]), (&json!("error"), &json!(reason)));
    let found = diagnosis(&owner, &model).await;
    assert_eq!((&found["detected"], &found["message"]), (&json!(false), &json!(reason)));

    // A gateway that ends before it has the log reads it after its next start.
    model.start(&owner).await;
    assert_eq!(model.fails(&owner).await, reason);
    assert_eq!(model.record(&owner).await["diagnosis"], json!(null));
    gateway.set_env("DOCKER_HOST", &host);
    gateway.kill_and_restart().await;
    let owner = gateway.owner().await;
    let found = diagnosis(&owner, &model).await;
    assert_eq!(found["error_type"], "llamacpp_architecture_unsupported", "{found}");
    let events = owner.get(&model.path("events?limit=1")).await.expect(200);
    let detail = events[0]["detail"].as_str().unwrap();
    assert!(detail.contains(found["title"].as_str().unwrap()), "{events}");
}
