//! `kill -9` of the gateway at random moments of an export, an import and a restore: what is there afterwards is old or
//! new, the job's record says the truth, and the next run completes. `GANTRY_PACKAGE_KILLS` sets how often (20).

mod commands;
mod containers;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gantry_store::{DumpSecrets, Store, check_dump};
use gantry_testkit::{Client, Daemon, Database, Gateway, now, number, sim_llamacpp};
use rand::{RngExt, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    EXPORT, IMPORT, JOBS, RESTORE, assert_whole, carry, completes, ended, export, files, folder, gantry,
    manifest, restored, scratch, site, tiny,
};
use crate::{late_bodies::row, storm::random, support::column, team::make_org};

/// How often the gateway is killed in each test.
fn kills() -> u64 {
    number("GANTRY_PACKAGE_KILLS").unwrap_or(20)
}

/// Returns a random time within work that takes `took` if nothing disturbs it, or shortly after its end.
pub(super) fn moment(random: &mut StdRng, took: Duration) -> Duration {
    took.mul_f64(random.random_range(0.0..1.1))
}

/// The files below a folder, with the checksums of what they hold.
pub(super) fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let sum = |name: PathBuf| {
        let sum = Sha256::digest(fs::read(dir.join(&name)).unwrap()).to_vec();
        (name, sum)
    };
    files(dir).into_iter().map(sum).collect()
}

/// Weights of 18 MB in six files, a folder with two files and a link.
pub(super) fn add_weights(gateway: &Gateway) {
    let dir = gateway.models_dir();
    for n in 0..6 {
        fs::write(dir.join(format!("w{n}.gguf")), vec![n; 3 << 20]).unwrap();
    }
    fs::create_dir(dir.join("set")).unwrap();
    fs::write(dir.join("set/config.json"), "{}").unwrap();
    fs::write(dir.join("set/a.safetensors"), vec![9; 1 << 20]).unwrap();
    std::os::unix::fs::symlink("a.safetensors", dir.join("set/link.safetensors")).unwrap();
}

/// Sends a request, kills the gateway `delay` later and starts it again. The wait is the injected fault. Returns a new
/// session and the newest job, if there is any.
async fn cut_off(
    gateway: &mut Gateway,
    owner: &Client,
    (path, body): (&str, &Value),
    delay: Duration,
) -> (Client, Option<Value>) {
    let end = tokio::time::sleep(delay);
    tokio::pin!(end);
    tokio::select! {
        answer = owner.request(Method::POST, path).json(body).send() => {
            assert_eq!(answer.unwrap().status(), 202);
            end.await;
        }
        () = &mut end => {}
    }
    gateway.kill_and_restart().await;
    let owner = gateway.owner().await;
    let newest = owner.get(JOBS).await.expect(200).as_array().unwrap().first().cloned();
    let newest = match newest {
        Some(job) => Some(ended(&owner, &job).await),
        None => None,
    };
    (owner, newest)
}

/// Whether this job, which is not `last`, completed. One that did not must say that it was interrupted.
fn completed(job: Option<&Value>, last: &Value) -> bool {
    let Some(job) = job.filter(|it| it["id"] != last["id"]) else { return false };
    if job["status"] == "completed" {
        return true;
    }
    assert_eq!((&job["status"], &job["artifacts"]), (&json!("failed"), &Value::Null), "{job}");
    assert!(job["error"].as_str().unwrap().starts_with("interrupted"), "{job}");
    false
}

/// The id of the package in a folder; `None` if there is none, or one that says itself that it is not complete. Fails for
/// one that looks whole and is not.
pub(super) fn package_in(dir: &Path) -> Option<String> {
    let ran = gantry(&["package", "verify", dir.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    if ran.status.success() {
        return Some(manifest(dir)["id"].as_str().unwrap().to_owned());
    }
    let honest = ["has not ended", "is not a package", "No such file"].iter().any(|it| said.contains(it));
    assert!(honest, "{}: {said}", dir.display());
    None
}

#[tokio::test]
async fn an_export_that_is_killed_leaves_no_half_package() {
    let (gateway, owner) = site(Database::Sqlite).await;
    exports_are_cut_off(gateway, owner, kills()).await;
}

/// Exports weights and whatever else the gateway has. Returns the record of the last export.
async fn exports_are_cut_off(mut gateway: Gateway, mut owner: Client, kills: u64) -> Value {
    let (_, mut random) = random();
    add_weights(&gateway);
    owner.post("/admin/models", &tiny()).await.expect(201);
    let weights = tree(&gateway.models_dir());
    let (mut took, mut last, mut n_completed) = ([Duration::ZERO; 2], Value::Null, 0);
    // The first one reads all weights; the others know their checksums.
    export(&owner, "p").await;
    for (it, name) in took.iter_mut().zip(["new", "p"]) {
        let begun = Instant::now();
        last = export(&owner, name).await;
        *it = begun.elapsed();
    }
    fs::remove_dir_all(folder(&gateway, "new")).unwrap();
    let begun = Instant::now();
    for n in 0..kills {
        // A new folder, or that of a package.
        let again = n % 2 == 1;
        let name = if again { "p" } else { "new" };
        let mut body = json!({ "output_dir": name, "tar_models": true });
        if n % 4 == 2 {
            body["part_size"] = json!(4 << 20);
        }
        let dir = folder(&gateway, name);
        make_org(&owner, &format!("Org {n}")).await;
        let delay = moment(&mut random, took[usize::from(again)]);
        let job;
        (owner, job) = cut_off(&mut gateway, &owner, (EXPORT, &body), delay).await;
        let after = package_in(&dir);
        if completed(job.as_ref(), &last) {
            n_completed += 1;
            assert_eq!(after.as_deref(), job.unwrap()["artifacts"]["package_id"].as_str(), "{n}");
        }
        last = completes(&owner, EXPORT, &body).await;
        assert_eq!(package_in(&dir).as_deref(), last["artifacts"]["package_id"].as_str(), "{n}");
        assert_eq!(tree(&gateway.models_dir()), weights, "{n}");
        if !again {
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    told("exports", [n_completed, kills], begun);
    println!("an export into a new folder and one into that of a package take {took:?}");
    last
}

/// Says how a test went, in a line that `make test-long` shows again at its end.
fn told(what: &str, [n_completed, kills]: [u64; 2], begun: Instant) {
    let each = begun.elapsed().as_secs_f64() / kills.max(1) as f64;
    println!("KILLS {kills} {what}; {n_completed} were faster than the kill; {each:.2} s a round");
}

#[tokio::test]
async fn an_import_that_is_killed_leaves_whole_files_only() {
    let (here, owner) = site(Database::Sqlite).await;
    let (there, far) = site(Database::Sqlite).await;
    imports_are_cut_off((here, owner), (there, far), None, kills()).await;
}

/// Imports weights and a model, and an image into the container runtime of the other side, if there is one.
async fn imports_are_cut_off(
    (here, owner): (Gateway, Client),
    (mut gateway, mut far): (Gateway, Client),
    daemon: Option<&Daemon>,
    kills: u64,
) {
    let (_, mut random) = random();
    add_weights(&here);
    owner.post("/admin/models", &tiny()).await.expect(201);
    let weights = tree(&here.models_dir());
    export(&owner, "p").await;
    carry(&here, &gateway, "p");
    drop(here);
    let (dir, body) = (gateway.models_dir(), json!({ "output_dir": "p" }));
    let (mut took, mut last, mut n_completed) = (Duration::ZERO, Value::Null, 0);
    let (image, mut begun) = (daemon.map(image_id), Instant::now());
    for n in 0..=kills {
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("own.gguf"), "mine").unwrap();
        if let Some(daemon) = daemon {
            daemon.docker(&["rmi", sim_llamacpp()]);
        }
        let mut allowed = weights.clone();
        allowed.extend(tree(&dir));
        for model in far.get("/admin/models").await.expect(200).as_array().unwrap() {
            far.delete(&format!("/admin/models/{}", model["id"])).await.expect(200);
        }
        if n == 0 {
            begun = Instant::now();
            last = completes(&far, IMPORT, &body).await;
            took = begun.elapsed();
            begun = Instant::now();
            continue;
        }
        let job;
        (far, job) = cut_off(&mut gateway, &far, (IMPORT, &body), moment(&mut random, took)).await;
        let mut found = tree(&dir);
        found.retain(|name, _| !name.starts_with(".gantry-import-") && !in_quarantine(name));
        for (name, sum) in &found {
            assert_eq!(allowed.get(name), Some(sum), "{n}: {}", name.display());
        }
        let loaded = daemon.map(image_id);
        assert!(loaded == image || loaded.as_deref() == Some(""), "{n}: {loaded:?}");
        if completed(job.as_ref(), &last) {
            n_completed += 1;
            assert_eq!((found, loaded), (allowed.clone(), image.clone()), "{n}");
            let models = far.get("/admin/models").await.expect(200);
            assert_eq!(column(&models, "served_name"), ["tiny"], "{n}");
        }
        last = completes(&far, IMPORT, &body).await;
        assert_eq!(tree(&dir), allowed, "{n}: all is there, and no quarantine");
        assert_eq!(daemon.map(image_id), image, "{n}");
        let models = far.get("/admin/models").await.expect(200);
        assert_eq!(column(&models, "served_name"), ["tiny"], "{n}");
    }
    assert_whole(&folder(&gateway, "p"));
    told("imports", [n_completed, kills], begun);
    println!("an import takes {took:?}");
}

/// The id of the simulator's image on a container runtime; empty if it has none.
pub(super) fn image_id(daemon: &Daemon) -> String {
    daemon.docker(&["images", "-q", "--no-trunc", sim_llamacpp()])
}

pub(super) fn in_quarantine(name: &Path) -> bool {
    name.components().any(|it| it.as_os_str().to_string_lossy().starts_with(".gantry-import-"))
}

pub(crate) fn url(gateway: &Gateway) -> String {
    let file = || format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
    gateway.database_url().unwrap_or_else(file)
}

/// Digests of tables, by their names.
type Content = BTreeMap<String, String>;

/// Digests of all tables but those of which the job itself writes rows. The database must be sound.
pub(super) async fn all_content(url: &str) -> Content {
    let store = Store::open_to_read(url).await.unwrap();
    let proof = store.dump(DumpSecrets::Redacted, now(), &mut io::sink()).await.unwrap();
    store.close().await;
    assert!(proof.audit.verifies && proof.enabled_owners == 1, "{proof:?}");
    let mut digests = proof.digests;
    digests.retain(|table, _| !["audit", "audit_chain", "jobs"].contains(&table.as_str()));
    digests.insert("sums of roll-ups".to_owned(), format!("{:?}", proof.rollups));
    digests
}

/// Digests of all tables in which a start of the gateway and a sign-in write nothing.
pub(super) async fn content(url: &str) -> Content {
    let mut digests = all_content(url).await;
    // Roll-ups are packed anew from time to time; their sums are what counts.
    digests.retain(|table, _| !["meta", "users", "usage_rollups"].contains(&table.as_str()));
    digests
}

pub(crate) async fn add_usage(gateway: &Gateway, rows: std::ops::Range<i64>) {
    let store = Store::open(&url(gateway)).await.unwrap();
    let mut tx = store.write().await.unwrap();
    tx.insert_usage(&rows.map(row).collect::<Vec<_>>()).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
}

/// The packages of [`two_states`].
pub(super) const STATES: [&str; 2] = ["a", "b"];

/// Exports two states of a database, which restores go back and forth between. Returns what is in each.
pub(super) async fn two_states(gateway: &Gateway, owner: &Client) -> [Content; 2] {
    let mut states = [Content::new(), Content::new()];
    for (n, name) in STATES.iter().enumerate() {
        make_org(owner, &format!("Org {name}")).await;
        let first = n as i64 * 1500;
        add_usage(gateway, first..first + 1500).await;
        export(owner, name).await;
        states[n] = content(&url(gateway)).await;
    }
    assert_ne!(states[0], states[1]);
    states
}

/// Returns which of the states this is.
pub(super) fn state_of(found: &Content, states: &[Content; 2], n: u64) -> usize {
    let reached = states.iter().position(|it| it == found);
    reached.unwrap_or_else(|| panic!("{n}: neither old nor new: {found:?}, {states:?}"))
}

async fn restores_are_cut_off(database: Database, kills: u64) {
    let (_, mut random) = random();
    let (mut gateway, mut owner) = site(database).await;
    let states = two_states(&gateway, &owner).await;
    let restore = |to: usize, n: u64| json!({ "output_dir": STATES[to], "drop_existing": true, "backup_first": n.is_multiple_of(2) });
    let begun = Instant::now();
    let (after, mut last) = restored(&gateway, &owner, &restore(0, 0)).await;
    let (took, mut now, mut completions) = (begun.elapsed(), 0, 0);
    owner = after;
    let begun = Instant::now();
    for n in 0..kills {
        let to = 1 - now;
        let delay = moment(&mut random, took);
        let job;
        (owner, job) = cut_off(&mut gateway, &owner, (RESTORE, &restore(to, n)), delay).await;
        let reached = state_of(&content(&url(&gateway)).await, &states, n);
        let says_so = completed(job.as_ref(), &last);
        assert_eq!(says_so, reached == to, "{n}: {job:?}");
        completions += u64::from(says_so);
        (owner, last) = restored(&gateway, &owner, &restore(to, 1)).await;
        assert_eq!(last["status"], "completed", "{n}: {last}");
        assert_eq!(content(&url(&gateway)).await, states[to], "{n}");
        assert_eq!(scratch(&gateway), [""; 0], "{n}");
        now = to;
    }
    for name in STATES {
        assert_backups_can_be_restored(&folder(&gateway, name));
        assert_whole(&folder(&gateway, name));
    }
    told(&format!("restores, {database:?}"), [completions, kills], begun);
    println!("a restore takes {took:?}");
}

/// Whatever looks like a backup is one.
fn assert_backups_can_be_restored(package: &Path) {
    let Ok(backups) = fs::read_dir(package.join("db/pre_restore_backup")) else { return };
    for path in backups.map(|it| it.unwrap().path()).filter(|it| it.extension().is_some_and(|it| it == "sql"))
    {
        let problems = check_dump(fs::File::open(&path).unwrap()).problems;
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
    }
}

#[tokio::test]
async fn a_restore_into_sqlite_that_is_killed_leaves_the_old_or_the_new_database() {
    restores_are_cut_off(Database::Sqlite, kills().div_ceil(2)).await;
}

#[tokio::test]
async fn a_restore_into_postgres_that_is_killed_leaves_the_old_or_the_new_database() {
    if Database::all("deployment: restores into Postgres that are killed").contains(&Database::Postgres) {
        restores_are_cut_off(Database::Postgres, kills().div_ceil(2)).await;
    }
}
