//! While an export, an import or a restore runs, its record says how far it is: the part that is done only grows, and the
//! time that is left is there.

use std::fs;

use gantry_store::Store;
use gantry_testkit::{Client, Database, PATIENCE, eventually};
use serde_json::{Value, json};

use super::{EXPORT, IMPORT, JOBS, RESTORE, carry, ended, export, folder, site, tiny};
use crate::{deployment::kills::url, late_bodies::row};

/// Bytes of sparse weights, whose copy takes seconds.
const LARGE: u64 = 2 << 30;
/// Rows whose restore takes seconds: a job's record is written twice a second.
const ROWS: i64 = 200_000;

/// Looks at a job until it ends, or its session does, and checks what its record says meanwhile. Returns the different
/// values of `progress`.
async fn looked_at(owner: &Client, path: &str, body: &Value) -> Vec<f64> {
    let job = owner.post(path, body).await.expect(202);
    let place = format!("{JOBS}/{}", job["id"].as_str().unwrap());
    let (mut seen, mut has_eta) = (vec![0.0], false);
    eventually("the job ends", PATIENCE, async || {
        let answer = owner.get(&place).await;
        if answer.status == 401 {
            return Some(());
        }
        let job = answer.expect(200);
        let progress = job["progress"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&progress) && progress >= *seen.last().unwrap(), "{seen:?}: {job}");
        if job["status"] != "running" {
            assert_eq!((&job["status"], progress), (&json!("completed"), 1.0), "{job}");
            return Some(());
        }
        if progress > *seen.last().unwrap() {
            seen.push(progress);
        }
        assert!(job["eta_seconds"].is_u64() || !has_eta || progress >= 1.0, "it was there before: {job}");
        has_eta |= job["eta_seconds"].is_u64();
        None
    })
    .await;
    assert!(has_eta && seen.len() > 2, "{seen:?}");
    seen
}

#[tokio::test]
async fn export_and_import_show_a_progress_that_only_rises_and_the_time_that_is_left() {
    let (here, owner) = site(Database::Sqlite).await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    fs::File::create(here.models_dir().join("large.gguf")).unwrap().set_len(LARGE).unwrap();
    let seen = looked_at(&owner, EXPORT, &json!({ "output_dir": "p", "tar_models": true })).await;
    println!("export: {seen:?}");
    let (there, owner) = site(Database::Sqlite).await;
    fs::create_dir_all(there.data_dir().join("exports")).unwrap();
    fs::rename(folder(&here, "p"), folder(&there, "p")).unwrap();
    let seen = looked_at(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
    println!("import: {seen:?}");
}

#[tokio::test]
async fn restore_database_shows_a_progress_that_only_rises_and_the_time_that_is_left() {
    let (here, owner) = site(Database::Sqlite).await;
    let store = Store::open(&url(&here)).await.unwrap();
    for first in (0..ROWS).step_by(1000) {
        let mut tx = store.write().await.unwrap();
        tx.insert_usage(&(first..first + 1000).map(row).collect::<Vec<_>>()).await.unwrap();
        tx.commit().await.unwrap();
    }
    store.close().await;
    export(&owner, "p").await;
    for database in Database::one("deployment: progress of a restore") {
        let (there, owner) = site(database).await;
        carry(&here, &there, "p");
        let body = json!({ "output_dir": "p", "drop_existing": true });
        let seen = looked_at(&owner, RESTORE, &body).await;
        println!("{database:?}: {seen:?}");
        let owner = there.owner().await;
        let job = ended(&owner, &owner.get(JOBS).await.expect(200)[0]).await;
        assert_eq!((&job["status"], &job["progress"]), (&json!("completed"), &json!(1.0)), "{job}");
    }
}
