//! Models whose engines are processes of this machine. No Docker is needed, and none is used.

mod again;
mod choice;
mod engine_keys;
mod failures;
mod life;
mod places;
mod ports;
mod previous_log;
mod real_engine;
mod simulators;
mod survival;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use gantry_testkit::{Gateway, Managed, Options, PATIENCE, engine_processes, eventually};
use serde_json::Value;

use crate::support::{GANTRY, start};

async fn gateway() -> Gateway {
    start(Options::processes()).await
}

/// Pid of the engine and the time of its start.
fn process(gateway: &Gateway, model: &Managed) -> (i64, i64) {
    let state = gateway.engine_state(&model.container).expect("it was started");
    (state["engine_pid"].as_i64().unwrap(), state["started_at"].as_i64().unwrap())
}

fn supervisor(gateway: &Gateway, model: &Managed) -> i64 {
    gateway.engine_state(&model.container).expect("it was started")["pid"].as_i64().unwrap()
}

/// Waits until no process of any engine of the gateway is left.
async fn nothing_left(gateway: &Gateway) {
    let instance = gateway.instance();
    eventually("no process is left", PATIENCE, async || engine_processes(&instance).is_empty().then_some(()))
        .await;
}

/// A program in the gateway's surroundings that does what `script` says; `GANTRY` in it is the real one.
fn program(dir: &tempfile::TempDir, name: &str, script: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{}\n", script.replace("GANTRY", GANTRY))).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap()
}
