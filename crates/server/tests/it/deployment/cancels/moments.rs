//! Cancels at random moments, over all phases of an export, an import and a restore: the job's thread ends, what is there is old or
//! new, and the next run completes. `GANTRY_PACKAGE_CANCELS` sets how often (6).

use std::{
    fs,
    time::{Duration, Instant},
};

use gantry_testkit::{Client, Daemon, Database, Gateway, number, sim_llamacpp};
use serde_json::{Value, json};

use super::no_thread_is_left;
use crate::{
    deployment::{
        EXPORT, IMPORT, JOBS, RESTORE, assert_whole, carry, completes, ended, export, folder,
        kills::{
            STATES, add_usage, add_weights, content, image_id, in_quarantine, moment, package_in, state_of,
            tree, two_states, url,
        },
        restored, scratch, site, tiny,
    },
    storm::random,
};

/// How often a job is cancelled in each test.
pub(super) fn cancels() -> u64 {
    number("GANTRY_PACKAGE_CANCELS").unwrap_or(6)
}

/// Starts a job, cancels it `delay` later, and waits until its thread has ended. The wait is the injected fault. Returns a new
/// session and the job's record.
async fn cancelled_after(
    gateway: &Gateway,
    owner: &Client,
    (path, body): (&str, &Value),
    delay: Duration,
) -> (Client, Value) {
    let job = owner.post(path, body).await.expect(202);
    tokio::time::sleep(delay).await;
    let answer = owner.delete(&format!("{JOBS}/{}", job["id"].as_str().unwrap())).await;
    // The job may have ended before. A restore ends the session then, and has the database for itself while it swaps it.
    assert!([200, 401, 409, 503].contains(&answer.status), "{}: {}", answer.status, answer.text);
    no_thread_is_left(gateway).await;
    let owner = gateway.owner().await;
    let job = ended(&owner, &job).await;
    assert!(["cancelled", "completed"].map(Value::from).contains(&job["status"]), "{job}");
    (owner, job)
}

/// Says how a test went, in a line that `make test-long` shows again at its end.
fn told(what: &str, [n_completed, cancels]: [u64; 2], took: &dyn std::fmt::Debug) {
    println!("CANCELS {cancels} {what}; {n_completed} were faster than the cancel; one takes {took:?}");
}

#[tokio::test]
async fn an_export_that_is_cancelled_leaves_no_half_package() {
    for database in Database::one("deployment: exports that are cancelled") {
        let (gateway, owner) = site(database).await;
        // The dump of the database is a phase of its own.
        add_usage(&gateway, 0..20_000).await;
        exports_are_cancelled(&gateway, owner, cancels()).await;
    }
}

/// Cancels exports into a new folder and into that of a package. Returns the record of the last export.
pub(super) async fn exports_are_cancelled(gateway: &Gateway, mut owner: Client, cancels: u64) -> Value {
    let (_, mut random) = random();
    add_weights(gateway);
    owner.post("/admin/models", &tiny()).await.expect(201);
    let (mut took, mut last, mut n_completed) = ([Duration::ZERO; 2], Value::Null, 0);
    // The first one reads all weights; the others know their checksums.
    export(&owner, "p").await;
    for (it, name) in took.iter_mut().zip(["new", "p"]) {
        let begun = Instant::now();
        last = export(&owner, name).await;
        *it = begun.elapsed();
    }
    fs::remove_dir_all(folder(gateway, "new")).unwrap();
    for n in 0..cancels {
        let again = n % 2 == 1;
        let name = if again { "p" } else { "new" };
        let mut body = json!({ "output_dir": name, "tar_models": true });
        if n % 4 == 2 {
            body["part_size"] = json!(4 << 20);
        }
        let dir = folder(gateway, name);
        let delay = moment(&mut random, took[usize::from(again)]);
        let job;
        (owner, job) = cancelled_after(gateway, &owner, (EXPORT, &body), delay).await;
        let found = package_in(&dir);
        if job["status"] == "completed" {
            n_completed += 1;
            assert_eq!(found.as_deref(), job["artifacts"]["package_id"].as_str(), "{n}: {job}");
        }
        // One that was past the point of no return has put a whole package in place.
        assert!(found.is_some() || !again && !dir.exists(), "{n}: {job}");
        last = completes(&owner, EXPORT, &body).await;
        assert_eq!(package_in(&dir).as_deref(), last["artifacts"]["package_id"].as_str(), "{n}");
        if !again {
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    told("exports", [n_completed, cancels], &took);
    last
}

#[tokio::test]
async fn an_import_that_is_cancelled_leaves_whole_files_and_no_quarantine() {
    for database in Database::one("deployment: imports that are cancelled") {
        imports_are_cancelled(site(database).await, site(database).await, None, cancels()).await;
    }
}

/// Cancels imports of weights and a model, and of an image into the container runtime of the other side, if there is one.
pub(super) async fn imports_are_cancelled(
    (here, owner): (Gateway, Client),
    (gateway, mut far): (Gateway, Client),
    daemon: Option<&Daemon>,
    cancels: u64,
) {
    let (_, mut random) = random();
    add_weights(&here);
    owner.post("/admin/models", &tiny()).await.expect(201);
    let weights = tree(&here.models_dir());
    export(&owner, "p").await;
    carry(&here, &gateway, "p");
    drop(here);
    let (dir, body) = (gateway.models_dir(), json!({ "output_dir": "p" }));
    let (image, mut took, mut n_completed) = (daemon.map(image_id), Duration::ZERO, 0);
    for n in 0..=cancels {
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        if let Some(daemon) = daemon {
            daemon.docker(&["rmi", sim_llamacpp()]);
        }
        for model in far.get("/admin/models").await.expect(200).as_array().unwrap() {
            far.delete(&format!("/admin/models/{}", model["id"])).await.expect(200);
        }
        if n == 0 {
            let begun = Instant::now();
            completes(&far, IMPORT, &body).await;
            took = begun.elapsed();
            continue;
        }
        let job;
        (far, job) = cancelled_after(&gateway, &far, (IMPORT, &body), moment(&mut random, took)).await;
        let found = tree(&dir);
        for (name, sum) in &found {
            assert!(!in_quarantine(name), "{n}: {}", name.display());
            assert_eq!(weights.get(name), Some(sum), "{n}: {}", name.display());
        }
        if job["status"] == "completed" {
            n_completed += 1;
            assert_eq!(found, weights, "{n}");
        }
        completes(&far, IMPORT, &body).await;
        assert_eq!((tree(&dir), daemon.map(image_id)), (weights.clone(), image.clone()), "{n}");
    }
    assert_whole(&folder(&gateway, "p"));
    told("imports", [n_completed, cancels], &took);
}

#[tokio::test]
async fn a_restore_that_is_cancelled_leaves_the_old_or_the_new_database() {
    for database in Database::all("deployment: restores that are cancelled") {
        let (_, mut random) = random();
        let (gateway, mut owner) = site(database).await;
        let states = two_states(&gateway, &owner).await;
        let body = |to: usize, n: u64| json!({ "output_dir": STATES[to], "drop_existing": true, "backup_first": n.is_multiple_of(2) });
        let begun = Instant::now();
        let (after, mut last) = restored(&gateway, &owner, &body(0, 0)).await;
        let (took, mut now, mut n_completed) = (begun.elapsed(), 0, 0);
        assert_eq!(last["status"], "completed", "{last}");
        owner = after;
        for n in 0..cancels() {
            let to = 1 - now;
            let delay = moment(&mut random, took);
            let (after, job) = cancelled_after(&gateway, &owner, (RESTORE, &body(to, n)), delay).await;
            let reached = state_of(&content(&url(&gateway)).await, &states, n);
            assert_eq!(job["status"] == "completed", reached == to, "{n}: {job}");
            n_completed += u64::from(reached == to);
            (owner, last) = restored(&gateway, &after, &body(to, 1)).await;
            assert_eq!(last["status"], "completed", "{n}: {last}");
            assert_eq!(content(&url(&gateway)).await, states[to], "{n}");
            assert_eq!(scratch(&gateway), [""; 0], "{n}");
            now = to;
        }
        told(&format!("restores, {database:?}"), [n_completed, cancels()], &took);
    }
}
