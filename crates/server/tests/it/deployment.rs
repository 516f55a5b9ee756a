//! Deployment packages and restores of the database, through the admin API and the program `gantry`.

mod air_gap;
mod cancels;
mod deltas;
mod differences;
mod dump_corpus;
mod faults;
mod hostile;
mod hostile_images;
mod hub_cache;
mod images;
mod imports;
pub(crate) mod kills;
mod parts;
mod progress;
mod reconciled;
mod restore;
mod rows;
mod services;
mod side;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, copy, eventually, simulated};
use serde_json::{Value, json};

use crate::support::{GANTRY, start};

const EXPORT: &str = "/admin/deployment/export";
const ESTIMATE: &str = "/admin/deployment/estimate-size";
const IMPORT: &str = "/admin/deployment/import";
const IMPORT_MODEL: &str = "/admin/deployment/import-model";
const RESTORE: &str = "/admin/deployment/restore-database";
const STATUS: &str = "/admin/deployment/status";
const JOBS: &str = "/admin/deployment/jobs";
/// The weights of the model `tiny`.
const WEIGHTS: &[u8] = &[7; 300_000];

/// A gateway whose engines are programs, with the weights of one model.
async fn site(database: Database) -> (Gateway, Client) {
    site_with(Options::processes().on(database)).await
}

/// A gateway with the weights of one model.
async fn site_with(options: Options) -> (Gateway, Client) {
    let gateway = start(options).await;
    fs::write(gateway.models_dir().join("tiny.gguf"), WEIGHTS).unwrap();
    let owner = gateway.owner().await;
    (gateway, owner)
}

/// The body of the model `tiny`, whose weights [`site`] made.
fn tiny() -> Value {
    let mut body = simulated("llamacpp", "tiny", &[]);
    body["local_path"] = json!("tiny.gguf");
    body
}

/// Adds weights whose export takes minutes: a file of 64 GiB without any content.
fn add_huge(gateway: &Gateway) {
    fs::File::create(gateway.models_dir().join("huge.gguf")).unwrap().set_len(64 << 30).unwrap();
}

/// The folder of a package in the first export folder.
fn folder(gateway: &Gateway, name: &str) -> PathBuf {
    gateway.data_dir().join("exports").join(name)
}

/// Carries a package to another gateway, as on a disk.
fn carry(from: &Gateway, to: &Gateway, name: &str) {
    copy(&folder(from, name), &folder(to, name));
}

/// Waits for the end of a job that was just started. It has the lowest priority beside other tests.
async fn ended(owner: &Client, job: &Value) -> Value {
    ended_within(owner, job, 2 * PATIENCE).await
}

/// Waits longer than for other jobs.
async fn ended_within(owner: &Client, job: &Value, limit: Duration) -> Value {
    let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
    eventually("the job ends", limit, async || {
        let job = owner.get(&path).await.expect(200);
        (job["status"] != "running" && job["status"] != "pending").then_some(job)
    })
    .await
}

/// Starts a job, which must complete, and returns its record.
async fn completes(owner: &Client, path: &str, body: &Value) -> Value {
    let job = owner.post(path, body).await.expect(202);
    let job = ended(owner, &job).await;
    assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
    job
}

/// Starts a job, which must fail, and returns why.
async fn fails(owner: &Client, path: &str, body: &Value) -> String {
    let job = owner.post(path, body).await.expect(202);
    let job = ended(owner, &job).await;
    assert_eq!((&job["status"], &job["artifacts"]), (&json!("failed"), &Value::Null), "{job}");
    job["error"].as_str().unwrap().to_owned()
}

/// Exports everything but images into `name`.
async fn export(owner: &Client, name: &str) -> Value {
    completes(owner, EXPORT, &json!({ "output_dir": name, "tar_models": true })).await
}

/// Starts a restore, waits until it is done, and signs in again. Returns the new session, and the job's record.
async fn restored(gateway: &Gateway, owner: &Client, body: &Value) -> (Client, Value) {
    let job = owner.post(RESTORE, body).await.expect(202);
    let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
    // The end of the restore is the end of the session, too.
    let ends = eventually("the restore ends", PATIENCE, async || {
        let answer = owner.get(&path).await;
        (answer.status == 401 || answer.expect(200)["status"] != "running").then_some(())
    });
    ends.await;
    let owner = gateway.owner().await;
    let job = ended(&owner, &job).await;
    (owner, job)
}

/// What restores left that are not done: files beside the database.
fn scratch(gateway: &Gateway) -> Vec<String> {
    let names = fs::read_dir(gateway.data_dir()).unwrap().map(|it| it.unwrap().file_name());
    names.filter_map(|it| it.into_string().ok()).filter(|it| it.starts_with("gantry_restore_")).collect()
}

fn gantry(args: &[&str]) -> Output {
    Command::new(GANTRY).args(args).env("GANTRY_SETTINGS_FILE", "").output().unwrap()
}

/// Runs `gantry package verify`; the folder must be a whole package.
#[track_caller]
fn assert_whole(dir: &Path) {
    let ran = gantry(&["package", "verify", dir.to_str().unwrap()]);
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{}: {}", dir.display(), String::from_utf8_lossy(&said));
}

/// The manifest of the package in a folder.
fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap()
}

/// All files below a folder, relative to it and sorted.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(dir).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
