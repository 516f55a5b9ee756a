//! The whole way over an air gap, between two gateways that reach nothing: exported on one side, and on the other side verified,
//! imported, restored, started and asked. Nothing looks up a name or sends a packet.

use std::{fs, path::Path};

use gantry_testkit::{Client, Database, Options, copy, sim_llamacpp, simulator};
use serde_json::json;

use super::{
    IMPORT, WEIGHTS, completes, export, restored,
    side::{Side, runs, says_something, stops},
    tiny,
};
use crate::{engines::image, support::GANTRY};

/// Moves the package of the model `tiny` to a side that has nothing, takes all of it in there, and asks the model with a key of
/// the first side.
async fn is_carried_over(here: Side, there: &Side, client: &Client) {
    here.assert_silent();
    there.takes(&here.gateway, "p");
    drop(here);
    there.verify("p", &[]);
    let owner = there.gateway.owner().await;
    completes(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
    let everything = json!({ "output_dir": "p", "drop_existing": true });
    let (owner, job) = restored(&there.gateway, &owner, &everything).await;
    assert_eq!(job["status"], "completed", "{job}");
    let model = runs(&owner).await;
    says_something(&there.gateway.client_of(client), "tiny").await;
    stops(&owner, &model).await;
    there.assert_silent();
}

/// Carries an installation whose engine is this image, with a real model.
async fn containers_are_carried_over(test: &str, image: &str, from: Database, to: Database) {
    let side = |database| {
        let options = Options::containers().env("ENGINE_IMAGE_ALLOWLIST", image);
        Side::with_containers(test, database, options)
    };
    let (here, there) = tokio::join!(side(from), side(to));
    let (Some(here), Some(there)) = (here, there) else { return };
    here.daemon().take(image);
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf/tiny-llama-F16.gguf");
    copy(&weights, &here.gateway.models_dir().join("tiny.gguf"));
    let owner = here.gateway.owner().await;
    let body = json!({
        "served_name": "tiny", "engine_type": "llamacpp", "engine_image": image, "local_path": "tiny.gguf",
        "device": "cpu", "context_size": 512, "mlock": false,
    });
    owner.post("/admin/models", &body).await.expect(201);
    let (_, client) = owner.new_key(&json!({})).await;
    let job = export(&owner, "p").await;
    assert_eq!(job["artifacts"]["images"], json!([image]), "{job}");
    is_carried_over(here, &there, &client).await;
    let carried = fs::read(there.gateway.models_dir().join("tiny.gguf")).unwrap();
    assert!(carried == fs::read(&weights).unwrap(), "the weights are the same");
}

async fn a_simulated_engine_is_carried_over(test: &str, from: Database, to: Database) {
    if simulator(GANTRY, test) {
        containers_are_carried_over(test, sim_llamacpp(), from, to).await;
    }
}

#[tokio::test]
async fn an_installation_on_sqlite_is_restored_behind_an_air_gap() {
    let (from, to) = (Database::Sqlite, Database::Sqlite);
    a_simulated_engine_is_carried_over("deployment: air gap, SQLite to SQLite", from, to).await;
}

#[tokio::test]
async fn an_installation_on_postgres_is_restored_behind_an_air_gap() {
    let (from, to) = (Database::Postgres, Database::Postgres);
    a_simulated_engine_is_carried_over("deployment: air gap, Postgres to Postgres", from, to).await;
}

#[tokio::test]
async fn an_installation_on_sqlite_is_restored_into_postgres_behind_an_air_gap() {
    let (from, to) = (Database::Sqlite, Database::Postgres);
    a_simulated_engine_is_carried_over("deployment: air gap, SQLite to Postgres", from, to).await;
}

#[tokio::test]
async fn a_real_llama_server_is_carried_over_an_air_gap() {
    const TEST: &str = "deployment: air gap, llama-server";
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", TEST) else { return };
    containers_are_carried_over(TEST, &image, Database::Sqlite, Database::Sqlite).await;
}

#[tokio::test]
async fn an_installation_with_programs_is_restored_behind_an_air_gap() {
    const TEST: &str = "deployment: air gap, programs";
    let (here, there) = tokio::join!(Side::with_programs(TEST), Side::with_programs(TEST));
    let (Some(here), Some(there)) = (here, there) else { return };
    fs::write(here.gateway.models_dir().join("tiny.gguf"), WEIGHTS).unwrap();
    let owner = here.gateway.owner().await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    let (_, client) = owner.new_key(&json!({})).await;
    export(&owner, "p").await;
    is_carried_over(here, &there, &client).await;
}
