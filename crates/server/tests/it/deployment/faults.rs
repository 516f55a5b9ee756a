//! Disks that are full, read-only or pulled out while a deployment job works.

use std::{fs, os::unix::fs::MetadataExt, time::Instant};

use gantry_testkit::{
    Client, Database, Gateway, LooseDisk, Options, PATIENCE, SmallDisk, eventually, root_with,
};
use serde_json::{Value, json};

use super::{
    EXPORT, IMPORT, JOBS, RESTORE, WEIGHTS, assert_whole, carry, completes, ended, export, fails, files,
    folder, gantry,
    kills::{all_content, url},
    restored, site, tiny,
};
use crate::{
    support::{column, start},
    team::make_org,
};

/// Bytes of sparse weights that take a second or more to copy.
const LARGE: u64 = 3 << 29;

/// A gateway whose export folder is a small disk.
async fn with_disk(test: &str, size: &str) -> Option<(Gateway, Client, SmallDisk, tempfile::TempDir)> {
    if !root_with(test, &["mount"]) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(&dir.path().join("disk"), size);
    let options = Options::processes().env("EXPORT_DIRS", disk.path().to_str().unwrap());
    let gateway = start(options).await;
    fs::write(gateway.models_dir().join("tiny.gguf"), WEIGHTS).unwrap();
    let owner = gateway.owner().await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    Some((gateway, owner, disk, dir))
}

/// Makes `bytes` of a full disk free again.
fn leave(disk: &SmallDisk, bytes: u64) {
    let filler = fs::OpenOptions::new().write(true).open(disk.path().join("filler")).unwrap();
    filler.set_len(filler.metadata().unwrap().len() - bytes).unwrap();
}

/// Whether the folder looks like a whole package.
fn looks_whole(dir: &std::path::Path) -> bool {
    gantry(&["package", "verify", dir.to_str().unwrap()]).status.success()
}

#[tokio::test]
async fn an_export_onto_a_full_disk_fails_and_goes_on_when_there_is_room() {
    let Some((gateway, owner, disk, _dir)) = with_disk("deployment: a full disk", "400m").await else {
        return;
    };
    disk.fill();
    // The program does not fit, and a part of it does.
    leave(&disk, 40 << 20);
    let estimate = json!({ "output_dir": "p", "tar_models": true });
    let told = owner.post("/admin/deployment/estimate-size", &estimate).await.expect(200);
    assert_eq!(told["disk_space"]["sufficient"], false, "{told}");
    let body = json!({ "output_dir": "p", "tar_models": true });
    let said = fails(&owner, EXPORT, &body).await;
    assert!(said.contains("no space left"), "{said}");
    assert!(!looks_whole(&disk.path().join("p")));
    assert_eq!(fs::read(gateway.models_dir().join("tiny.gguf")).unwrap(), WEIGHTS);
    assert_eq!(gateway.client().get("/readyz").await.status, 200);
    disk.clear();
    let job = completes(&owner, EXPORT, &body).await;
    assert_eq!(job["artifacts"]["models"], json!(["tiny"]), "{job}");
    assert_whole(&disk.path().join("p"));
}

#[tokio::test]
async fn an_export_onto_a_read_only_disk_says_so() {
    let Some((_gateway, owner, disk, _dir)) = with_disk("deployment: a read-only disk", "1m").await else {
        return;
    };
    disk.read_only();
    let said = fails(&owner, EXPORT, &json!({ "output_dir": "p" })).await;
    assert!(said.contains("Read-only file system"), "{said}");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
}

/// Starts an export of sparse weights, which takes seconds, and waits until it copies them.
pub(super) async fn copying(owner: &Client, path: &str, body: &Value) -> Value {
    let job = owner.post(path, body).await.expect(202);
    let place = format!("{JOBS}/{}", job["id"].as_str().unwrap());
    eventually("weights are copied", PATIENCE, async || {
        let job = owner.get(&place).await.expect(200);
        let copies = job["step"].as_str().unwrap().contains("weights");
        (copies && job["bytes_written"].as_u64().unwrap() > 200 << 20).then_some(job)
    })
    .await
}

#[tokio::test]
async fn an_export_whose_folder_is_removed_meanwhile_fails() {
    let (gateway, owner) = site(Database::Sqlite).await;
    let large = gateway.models_dir().join("large.gguf");
    fs::File::create(&large).unwrap().set_len(LARGE).unwrap();
    let body = json!({ "output_dir": "p", "tar_models": true });
    let job = copying(&owner, EXPORT, &body).await;
    let dir = folder(&gateway, "p");
    fs::remove_dir_all(&dir).unwrap();
    let job = ended(&owner, &job).await;
    assert_eq!(job["status"], "failed", "{job}");
    assert!(!looks_whole(&dir));
    assert_eq!(fs::metadata(&large).unwrap().size(), LARGE);
    fs::remove_file(&large).unwrap();
    export(&owner, "p").await;
    assert_whole(&dir);
}

#[tokio::test]
async fn an_import_whose_package_is_removed_meanwhile_puts_nothing_in_place() {
    let (here, owner) = site(Database::Sqlite).await;
    fs::File::create(here.models_dir().join("large.gguf")).unwrap().set_len(LARGE).unwrap();
    // A part is removed more easily than a file that is open.
    let body = json!({ "output_dir": "p", "tar_models": true, "part_size": 64 << 20 });
    completes(&owner, EXPORT, &body).await;
    let there = start(Options::processes()).await;
    fs::create_dir_all(there.data_dir().join("exports")).unwrap();
    fs::rename(folder(&here, "p"), folder(&there, "p")).unwrap();
    let owner = there.owner().await;
    let job = copying(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
    fs::remove_dir_all(folder(&there, "p")).unwrap();
    let job = ended(&owner, &job).await;
    assert_eq!(job["status"], "failed", "{job}");
    assert_eq!(files(&there.models_dir()), [""; 0].map(std::path::PathBuf::from));
    assert_eq!(owner.get("/admin/models").await.expect(200), json!([]));
}

#[tokio::test]
async fn an_import_that_does_not_fit_is_refused_before_it_begins() {
    if !root_with("deployment: a full disk of weights", &["mount"]) {
        return;
    }
    let (here, owner) = site(Database::Sqlite).await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    export(&owner, "p").await;
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(&dir.path().join("models"), "200k");
    let options = Options::processes().env("MODELS_DIR", disk.path().to_str().unwrap());
    let there = start(options).await;
    carry(&here, &there, "p");
    let owner = there.owner().await;
    let dry = owner.post(IMPORT, &json!({ "output_dir": "p", "dry_run": true })).await.expect(200);
    assert_eq!(dry["can_import"], false, "{dry}");
    let refused = owner.post(IMPORT, &json!({ "output_dir": "p" })).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("are free"), "{}", refused.text);
    assert_eq!(owner.get(JOBS).await.expect(200), json!([]));
}

/// There is room for the job's record, and none for a second database.
#[tokio::test]
async fn a_restore_without_room_leaves_the_old_database_and_completes_when_there_is_room() {
    if !root_with("deployment: a restore onto a full disk", &["mount"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(&dir.path().join("data"), "150m");
    let exports = dir.path().join("exports");
    fs::create_dir(&exports).unwrap();
    let options = Options::processes()
        .env("DATA_DIR", disk.path().to_str().unwrap())
        .env("EXPORT_DIRS", exports.to_str().unwrap());
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    make_org(&owner, "Early").await;
    let store = gantry_store::Store::open(&format!("sqlite://{}", disk.path().join("gantry.db").display()))
        .await
        .unwrap();
    let mut tx = store.write().await.unwrap();
    tx.insert_usage(&(0..20_000).map(crate::late_bodies::row).collect::<Vec<_>>()).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    completes(&owner, EXPORT, &json!({ "output_dir": "p" })).await;
    make_org(&owner, "Late").await;
    disk.fill();
    leave(&disk, 3 << 20);
    let body = json!({ "output_dir": "p", "drop_existing": true });
    let said = fails(&owner, RESTORE, &body).await;
    assert!(said.contains("full"), "{said}");
    let names = |list: &Value| column(list, "name").len();
    assert_eq!(names(&owner.get("/admin/orgs").await.expect(200)), 3);
    let left = fs::read_dir(disk.path())
        .unwrap()
        .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().starts_with("gantry_restore_"));
    assert_eq!(left.count(), 0);
    disk.clear();
    // The gateway may have to notice that its database can be written to again.
    let job = eventually("the restore is accepted", PATIENCE, async || {
        let answer = owner.post(RESTORE, &body).await;
        (answer.status == 202).then_some(answer.json)
    });
    let job = job.await;
    let after = eventually("the old session ends", PATIENCE, async || {
        let answer = owner.get(&format!("{JOBS}/{}", job["id"].as_str().unwrap())).await;
        assert_ne!(answer.json["status"], "failed", "{}", answer.text);
        (answer.status == 401).then_some(())
    });
    after.await;
    let owner = gateway.owner().await;
    assert_eq!(ended(&owner, &job).await["status"], "completed");
    assert_eq!(names(&owner.get("/admin/orgs").await.expect(200)), 2);
}

/// A package with eight weights, and a gateway whose models folder is a small disk of these options.
async fn to_disk(options: &str) -> (Gateway, Client, SmallDisk, tempfile::TempDir) {
    let (here, owner) = site(Database::Sqlite).await;
    for n in 0..8 {
        fs::write(here.models_dir().join(format!("w{n}.gguf")), vec![n; 4096]).unwrap();
    }
    owner.post("/admin/models", &tiny()).await.expect(201);
    export(&owner, "p").await;
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(&dir.path().join("models"), options);
    fs::write(disk.path().join("own.gguf"), "mine").unwrap();
    let options = Options::processes().env("MODELS_DIR", disk.path().to_str().unwrap());
    let there = start(options).await;
    carry(&here, &there, "p");
    let owner = there.owner().await;
    (there, owner, disk, dir)
}

/// An import into this disk fails with this reason and leaves nothing there; when the disk is remounted with the options `repaired`, it completes.
async fn fails_until(owner: &Client, disk: &SmallDisk, why: &str, repaired: &str) {
    let body = json!({ "output_dir": "p" });
    let begun = Instant::now();
    let said = fails(owner, IMPORT, &body).await;
    println!("{said:?} after {:?}", begun.elapsed());
    assert!(said.contains(why), "{said}");
    let left: Vec<_> = fs::read_dir(disk.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["own.gguf"], "neither files nor a quarantine");
    assert_eq!(owner.get("/admin/models").await.expect(200), json!([]));
    disk.remount(repaired);
    completes(owner, IMPORT, &body).await;
    assert_eq!(files(disk.path()).len(), 10);
    assert_eq!(fs::read_to_string(disk.path().join("own.gguf")).unwrap(), "mine");
}

/// The disk has room for the bytes of the weights, and not for the number of files.
#[tokio::test]
async fn an_import_onto_a_disk_that_gets_full_puts_nothing_in_place() {
    if !root_with("deployment: a disk gets full in an import", &["mount"]) {
        return;
    }
    let (_there, owner, disk, _dir) = to_disk("64m,nr_inodes=6").await;
    fails_until(&owner, &disk, "No space left on device", "nr_inodes=100").await;
}

#[tokio::test]
async fn an_import_into_a_read_only_models_folder_says_so() {
    if !root_with("deployment: a read-only models folder", &["mount"]) {
        return;
    }
    let (_there, owner, disk, _dir) = to_disk("64m").await;
    disk.read_only();
    fails_until(&owner, &disk, "Read-only file system", "rw").await;
}

#[tokio::test]
async fn a_restore_whose_backup_can_t_be_written_changes_nothing() {
    if !root_with("deployment: a read-only backup folder", &["mount"]) {
        return;
    }
    for database in Database::one("deployment: a read-only backup folder") {
        let (here, owner) = site(Database::Sqlite).await;
        make_org(&owner, "Early").await;
        export(&owner, "p").await;
        let dir = tempfile::tempdir().unwrap();
        let disk = SmallDisk::mount(&dir.path().join("disk"), "8m");
        fs::create_dir_all(disk.path().join("p/db")).unwrap();
        fs::copy(folder(&here, "p").join("db/dump.sql"), disk.path().join("p/db/dump.sql")).unwrap();
        disk.read_only();
        let options = Options::processes().on(database).env("EXPORT_DIRS", disk.path().to_str().unwrap());
        let there = start(options).await;
        let owner = there.owner().await;
        make_org(&owner, "Late").await;
        let before = all_content(&url(&there)).await;
        let mut body = json!({ "output_dir": "p", "drop_existing": true });
        let said = fails(&owner, RESTORE, &body).await;
        assert!(said.contains("backup can't be written") && said.contains("Read-only file system"), "{said}");
        assert_eq!(all_content(&url(&there)).await, before);
        // Without the backup nothing has to be written there.
        body["backup_first"] = json!(false);
        let (owner, job) = restored(&there, &owner, &body).await;
        assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
        let names = owner.get("/admin/orgs").await.expect(200);
        assert_eq!(column(&names, "name").len(), 2, "{names}");
    }
}

#[tokio::test]
async fn an_export_whose_disk_is_pulled_out_fails_and_goes_on_when_it_is_back() {
    if !root_with("deployment: a disk is pulled out", &["mount"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = LooseDisk::plugged(&dir.path().join("content"), &dir.path().join("disk"));
    let options = Options::processes().env("EXPORT_DIRS", disk.path().to_str().unwrap());
    let gateway = start(options).await;
    let large = gateway.models_dir().join("large.gguf");
    fs::File::create(&large).unwrap().set_len(LARGE).unwrap();
    fs::write(gateway.models_dir().join("tiny.gguf"), WEIGHTS).unwrap();
    let owner = gateway.owner().await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    let body = json!({ "output_dir": "p", "tar_models": true });
    let job = copying(&owner, EXPORT, &body).await;
    disk.pull();
    let begun = Instant::now();
    let job = ended(&owner, &job).await;
    println!("{} {:?} after it was pulled out", job["error"], begun.elapsed());
    assert_eq!((&job["status"], &job["artifacts"]), (&json!("failed"), &Value::Null), "{job}");
    assert!(job["error"].as_str().unwrap().contains("No such file"), "{job}");
    assert_eq!(
        files(disk.path()),
        [""; 0].map(std::path::PathBuf::from),
        "nothing is written beside the disk"
    );
    disk.plug();
    assert!(!looks_whole(&disk.path().join("p")));
    assert_eq!(fs::metadata(&large).unwrap().size(), LARGE);
    let begun = Instant::now();
    completes(&owner, EXPORT, &body).await;
    println!("the next export took {:?}", begun.elapsed());
    assert_whole(&disk.path().join("p"));
}
