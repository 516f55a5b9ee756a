//! Cancels of imports and restores, and of jobs of another gateway: within two seconds, with nothing left.

mod containers;
mod moments;

use std::{
    fs,
    io::{BufWriter, Write},
    path::Path,
    time::Instant,
};

use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, eventually};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::{
    IMPORT, JOBS, RESTORE, add_huge, completes, export,
    faults::copying,
    files, folder,
    hostile::{package, write},
    kills::{all_content, url},
    restored,
    rows::long_export,
    scratch, site,
};
use crate::{support::start, team::make_org};

/// Cancels a job, which must end soon, and says how long that took.
async fn is_cancelled(owner: &Client, job: &Value, what: &str) {
    let begun = Instant::now();
    let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
    let cancelled = owner.delete(&path).await.expect(200);
    let took = begun.elapsed();
    assert_eq!(
        (&cancelled["status"], &cancelled["artifacts"], &cancelled["error"]),
        (&json!("cancelled"), &Value::Null, &Value::Null),
        "{what}: {cancelled}"
    );
    println!("{what}: cancelled within {took:?}");
}

/// Waits until the job's thread has ended, too.
async fn no_thread_is_left(gateway: &Gateway) {
    let tasks = format!("/proc/{}/task", gateway.pid());
    eventually("the thread of the job ends", PATIENCE, async || {
        let names = fs::read_dir(&tasks).unwrap().flatten().map(|it| it.path().join("comm"));
        let left = names.filter_map(|it| fs::read_to_string(it).ok()).any(|it| it.trim() == "deployment");
        (!left).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_import_that_is_cancelled_leaves_no_quarantine() {
    for database in Database::one("deployment: cancel of an import") {
        let gateway = start(Options::processes().on(database)).await;
        fs::write(gateway.models_dir().join("own.gguf"), "mine").unwrap();
        let owner = gateway.owner().await;
        let dir = folder(&gateway, "p");
        let mut manifest = package(&dir);
        let size = 6_u64 << 30;
        fs::File::create(dir.join("models/large.gguf")).unwrap().set_len(size).unwrap();
        manifest["files"]["models/large.gguf"] = manifest["files"]["models/a.gguf"].clone();
        manifest["files"]["models/large.gguf"]["size"] = json!(size);
        write(&dir, &manifest);
        let job = copying(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
        is_cancelled(&owner, &job, &format!("an import, {database:?}")).await;
        no_thread_is_left(&gateway).await;
        assert_eq!(files(&gateway.models_dir()), [Path::new("own.gguf")]);
        let entries = fs::read_dir(gateway.models_dir()).unwrap().map(|it| it.unwrap().file_name());
        let left: Vec<_> = entries.filter(|it| it.to_string_lossy().starts_with('.')).collect();
        assert_eq!(left, [""; 0], "no quarantine is left");
        assert_eq!(owner.get("/admin/models").await.expect(200), json!([]));
        // The next one does what this one was to do.
        manifest["files"].as_object_mut().unwrap().remove("models/large.gguf");
        write(&dir, &manifest);
        completes(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
        assert!(gateway.models_dir().join("a.gguf").exists());
    }
}

/// Writes a dump with more rows than the test waits for, so that its load is always under way.
fn write_long_dump(from: &Path, to: &Path) {
    const ROWS: u64 = 12_000_000;
    let text = fs::read_to_string(from).unwrap();
    let (before, _) = text.split_once("COPY public.usage_unrolled ").unwrap_or_else(|| {
        let end = text.find("-- gantry-proof").unwrap();
        (&text[..end], "")
    });
    let mut file = BufWriter::new(fs::File::create(to).unwrap());
    writeln!(file, "{before}COPY public.usage_unrolled (start_at) FROM stdin;").unwrap();
    for n in 0..ROWS {
        writeln!(file, "{}", n * 3_600_000).unwrap();
    }
    file.flush().unwrap();
}

/// The scratch schemas of Postgres.
async fn schemas(gateway: &Gateway) -> Vec<String> {
    const SQL: &str = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'gantry_restore_' \
                       || LEFT(MD5(current_schema()), 8) || '%'";
    let Some(url) = gateway.database_url() else { return Vec::new() };
    let mut conn = PgConnection::connect(&url).await.unwrap();
    sqlx::query_scalar(SQL).fetch_all(&mut conn).await.unwrap()
}

#[tokio::test]
async fn a_restore_that_is_cancelled_leaves_the_old_database_and_no_scratch() {
    for database in Database::all("deployment: cancel of a restore") {
        let (gateway, owner) = site(database).await;
        make_org(&owner, "Early").await;
        export(&owner, "p").await;
        make_org(&owner, "Late").await;
        let dir = folder(&gateway, "p");
        write_long_dump(&dir.join("db/dump.sql"), &dir.join("db/long.sql"));
        let before = all_content(&url(&gateway)).await;
        let body = json!({
            "output_dir": "p", "db_file": "db/long.sql", "drop_existing": true, "backup_first": false,
        });
        let job = owner.post(RESTORE, &body).await.expect(202);
        let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
        eventually("it loads the dump", PATIENCE, async || {
            let job = owner.get(&path).await.expect(200);
            assert_eq!(job["status"], "running", "{job}");
            let loads = job["step"].as_str().unwrap().contains("scratch");
            (loads && job["bytes_written"].as_u64().unwrap() > 1 << 20).then_some(())
        })
        .await;
        is_cancelled(&owner, &job, &format!("a restore, {database:?}")).await;
        no_thread_is_left(&gateway).await;
        assert_eq!(scratch(&gateway), [""; 0]);
        assert_eq!(schemas(&gateway).await, [""; 0]);
        assert_eq!(all_content(&url(&gateway)).await, before);
        // The next one completes.
        let (_, job) = restored(&gateway, &owner, &json!({ "output_dir": "p", "drop_existing": true })).await;
        assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
    }
}

#[tokio::test]
async fn a_job_of_another_gateway_is_cancelled_there() {
    if !Database::all("deployment: cancel through another gateway").contains(&Database::Postgres) {
        return;
    }
    let (one, owner) = site(Database::Postgres).await;
    export(&owner, "kept").await;
    let two = start(Options::processes().env("DATABASE_URL", &one.database_url().unwrap())).await;
    let other = two.owner().await;
    add_huge(&one);
    for name in ["new", "kept"] {
        let job = long_export(&owner, name).await;
        is_cancelled(&other, &job, &format!("an export into `{name}` of another gateway")).await;
        no_thread_is_left(&one).await;
        let again = other.delete(&format!("{JOBS}/{}", job["id"].as_str().unwrap())).await;
        assert_eq!((again.status, again.code()), (409, "invalid_state"), "{}", again.text);
    }
    assert!(!folder(&one, "new").exists());
    super::assert_whole(&folder(&one, "kept"));
    // A job after it is not taken for the one that was cancelled.
    fs::remove_file(one.models_dir().join("huge.gguf")).unwrap();
    export(&owner, "new").await;
}
