//! Postgres and the container runtime fail while a deployment job works.

use std::{fs, path::Path, process::Command, time::Instant};

use gantry_testkit::{
    Client, Daemon, Gateway, Options, PATIENCE, Postgres, Wire, copy, eventually, simulated,
};
use serde_json::{Value, json};

use super::{EXPORT, IMPORT, JOBS, RESTORE, assert_whole, completes, ended, export, files, folder, gantry};
use crate::{
    support::{GANTRY, column, start},
    team::make_org,
};

/// The table that nothing but a dump, and the end of a restore, waits for.
const QUIET: &str = "chat_messages";

/// A gateway on a Postgres of its own, with the package `p` and an organisation that is not in it.
struct Site {
    postgres: Postgres,
    wire: Wire,
    gateway: Gateway,
    owner: Client,
}

impl Site {
    async fn new(test: &str) -> Option<Self> {
        let postgres = Postgres::start(test)?;
        let wire = Wire::to(postgres.addr(), b"COMMIT").await;
        let url = format!("postgres://postgres@{}/postgres", wire.addr);
        let gateway = start(Options::processes().env("DATABASE_URL", &url)).await;
        let owner = gateway.owner().await;
        make_org(&owner, "Early").await;
        export(&owner, "p").await;
        make_org(&owner, "Late").await;
        Some(Self { postgres, wire, gateway, owner })
    }

    /// Begins a restore, and waits until it is at this step.
    async fn restore(&self, backup_first: bool, step: &str) -> Value {
        let body = json!({ "output_dir": "p", "drop_existing": true, "backup_first": backup_first });
        let job = self.owner.post(RESTORE, &body).await.expect(202);
        let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
        eventually(step, PATIENCE, async || {
            let job = self.owner.get(&path).await.expect(200);
            assert_eq!(job["status"], "running", "{job}");
            job["step"].as_str().unwrap().contains(step).then_some(())
        })
        .await;
        job
    }

    /// Waits for the end of a restore, and checks that the database is what the job says. Returns the job.
    async fn ends(&self, job: &Value) -> Value {
        let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
        let end = eventually("the restore ends", PATIENCE * 3, async || {
            // A restore ends sessions, too; and the database may be away.
            let seen = self.owner.get(&path).await;
            (seen.status == 401 || (seen.status == 200 && seen.json["status"] != "running")).then_some(())
        });
        end.await;
        let owner = self.gateway.owner().await;
        let job = ended(&owner, job).await;
        let orgs = column(&owner.get("/admin/orgs").await.expect(200), "name").len();
        match job["status"].as_str().unwrap() {
            "completed" => assert_eq!(orgs, 2, "{job}"),
            "failed" => assert_eq!((orgs, job["error"].is_string()), (3, true), "{job}"),
            other => panic!("{other}: {job}"),
        }
        println!("{}: {}", job["status"], job["error"]);
        job
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_whose_folder_is_removed_meanwhile_leaves_old_or_new() {
    let Some(site) = Site::new("deployment: a folder is removed in a restore").await else { return };
    let dir = folder(&site.gateway, "p");
    // While it writes the backup.
    let lock = site.postgres.lock(QUIET);
    let job = site.restore(true, "backing up").await;
    eventually("the dump waits", PATIENCE, async || (site.postgres.waiting(QUIET) > 0).then_some(())).await;
    let aside = dir.with_file_name("aside");
    copy(&dir, &aside);
    fs::remove_dir_all(&dir).unwrap();
    drop(lock);
    let job = site.ends(&job).await;
    assert_eq!(job["status"], "failed", "{job}");
    assert!(job["error"].as_str().unwrap().contains("backup can't be written"), "{job}");
    // When everything was read.
    fs::rename(&aside, &dir).unwrap();
    let lock = site.postgres.lock(QUIET);
    let job = site.restore(false, "in place").await;
    fs::remove_dir_all(&dir).unwrap();
    drop(lock);
    assert_eq!(site.ends(&job).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_freezes_in_a_restore_lets_it_go_on() {
    let Some(site) = Site::new("deployment: Postgres freezes in a restore").await else { return };
    // It freezes while the restored database is about to be put in place.
    let lock = site.postgres.lock(QUIET);
    let job = site.restore(false, "in place").await;
    site.wire.hold();
    drop(lock);
    eventually("it is noticed", PATIENCE, async || {
        (site.gateway.client().get("/readyz").await.json["status"] != "ready").then_some(())
    })
    .await;
    site.wire.release();
    let back = Instant::now();
    let job = site.ends(&job).await;
    println!("frozen: the restore ended {:?} after it goes on", back.elapsed());
    assert_eq!(job["status"], "completed", "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_whose_connections_fall_silent_in_a_restore_leaves_the_old_state() {
    let Some(site) = Site::new("deployment: connections fall silent in a restore").await else { return };
    let lock = site.postgres.lock(QUIET);
    let job = site.restore(true, "backing up").await;
    eventually("the dump waits", PATIENCE, async || (site.postgres.waiting(QUIET) > 0).then_some(())).await;
    site.wire.lose();
    drop(lock);
    let lost = Instant::now();
    let job = site.ends(&job).await;
    println!("lost: the restore ended {:?} later", lost.elapsed());
    assert_eq!(job["status"], "failed", "{job}");
}

/// Makes an image of half a gigabyte, which takes seconds to save and to load.
fn make_image(daemon: &Daemon, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    fs::File::create(dir.path().join("content")).unwrap().set_len(512 << 20).unwrap();
    let archive = dir.path().join("a.tar");
    let made = Command::new("tar")
        .args(["-C", dir.path().to_str().unwrap(), "-cf", archive.to_str().unwrap(), "content"])
        .status();
    assert!(made.unwrap().success());
    daemon.docker(&["import", archive.to_str().unwrap(), name]);
}

/// Waits until the log of a job that runs names a step.
async fn at_step(owner: &Client, job: &Value, step: &str) {
    let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
    eventually(step, PATIENCE, async || {
        let job = owner.get(&path).await.expect(200);
        assert_eq!(job["status"], "running", "{job}");
        job["logs"].to_string().contains(step).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_docker_engine_that_is_killed_in_an_export_or_import_leaves_nothing_half_made() {
    const IMAGE: &str = "localhost/gantry-test-large:1";
    let Some(mut daemon) = Daemon::start(GANTRY, "deployment: dockerd is killed", false).await else {
        return;
    };
    make_image(&daemon, IMAGE);
    let options = Options::containers().env("CONTAINER_HOST", &daemon.host());
    let gateway = start(options.env("ENGINE_IMAGE_ALLOWLIST", IMAGE)).await;
    let weights = gateway.models_dir().join("large.gguf");
    fs::File::create(&weights).unwrap().set_len(3 << 29).unwrap();
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[]);
    body["engine_image"] = json!(IMAGE);
    let model = owner.post("/admin/models", &body).await.expect(201);
    let dir = folder(&gateway, "p");
    let body = json!({ "output_dir": "p", "tar_models": true });
    let job = owner.post(EXPORT, &body).await.expect(202);
    // Frozen while it saves, so that it is killed in the middle of that.
    at_step(&owner, &job, "saving images").await;
    daemon.signal("STOP");
    daemon.kill();
    let killed = Instant::now();
    let job = ended(&owner, &job).await;
    println!("export: {} {:?} after the kill", job["error"], killed.elapsed());
    assert_eq!((&job["status"], &job["artifacts"]), (&json!("failed"), &Value::Null), "{job}");
    assert!(job["error"].as_str().unwrap().contains("images can't be saved"), "{job}");
    assert!(!gantry(&["package", "verify", dir.to_str().unwrap()]).status.success());
    daemon.restart().await;
    eventually("the export is accepted", PATIENCE, async || {
        let ready = owner.get("/readyz").await.json;
        (ready["checks"]["container_runtime"] == "ok").then_some(())
    })
    .await;
    completes(&owner, EXPORT, &body).await;
    assert_whole(&dir);

    owner.delete(&format!("/admin/models/{}", model["id"])).await.expect(200);
    fs::remove_file(&weights).unwrap();
    daemon.docker(&["rmi", IMAGE]);
    let job = owner.post(IMPORT, &json!({ "output_dir": "p" })).await.expect(202);
    // Frozen before it is asked to load, so that it is killed in the middle of that.
    at_step(&owner, &job, "verifying images").await;
    daemon.signal("STOP");
    at_step(&owner, &job, "loading images").await;
    daemon.kill();
    let killed = Instant::now();
    let job = ended(&owner, &job).await;
    println!("import: {} {:?} after the kill", job["error"], killed.elapsed());
    assert_eq!((&job["status"], &job["artifacts"]), (&json!("failed"), &Value::Null), "{job}");
    assert!(job["error"].as_str().unwrap().contains("images can't be loaded"), "{job}");
    assert_eq!(owner.get("/admin/models").await.expect(200), json!([]));
    // Weights were whole before.
    assert_eq!(files(&gateway.models_dir()), [Path::new("large.gguf")]);
    daemon.restart().await;
    eventually("an import can be planned", PATIENCE, async || {
        let dry = owner.post(IMPORT, &json!({ "output_dir": "p", "dry_run": true })).await;
        (dry.status == 200).then_some(())
    })
    .await;
    let job = completes(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
    assert_eq!(job["artifacts"]["loaded_images"], json!([IMAGE]), "{job}");
    daemon.docker(&["image", "inspect", IMAGE]);
}
