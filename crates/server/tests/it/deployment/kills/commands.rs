//! `kill -9` of `gantry restore` and `gantry db promote`, which are processes of their own, at random moments: the database
//! is the old one or the new one, and the next run completes.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gantry_store::{Store, check_dump};
use gantry_testkit::{Database, Gateway, Options};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{Content, add_usage, content, kills, moment, state_of, told, two_states, url};
use crate::{
    deployment::{folder, gantry, scratch, site},
    storm::random,
    support::{GANTRY, start},
    team::make_org,
};

/// Runs a command, and kills it after `delay` unless it has ended. The wait is the injected fault. Returns whether the
/// command ended by itself.
async fn cut_off(args: &[&str], delay: Duration) -> bool {
    let mut command = Command::new(GANTRY);
    command.args(args).env("GANTRY_SETTINGS_FILE", "").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    tokio::time::sleep(delay).await;
    // A process that has ended can be killed, too, until it is waited for.
    child.kill().unwrap();
    let ran = child.wait_with_output().unwrap();
    assert!(matches!(ran.status.code(), None | Some(0)), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.status.success()
}

/// Runs a command, which must succeed.
fn succeeds(args: &[&str]) -> String {
    let ran = gantry(args);
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "{args:?}: {said}");
    said
}

/// What a command that was killed left in the data directory beside the database and its copies.
fn left(gateway: &Gateway) -> Vec<String> {
    let names = fs::read_dir(gateway.data_dir()).unwrap().map(|it| it.unwrap().file_name());
    let names = names.filter_map(|it| it.into_string().ok());
    let is_left = |it: &String| it.contains(".restore") || it.starts_with("promote-");
    names.filter(is_left).chain(scratch(gateway)).collect()
}

/// Looks at the copies of the database that restores have made, and removes them. Whatever looks like one is one.
async fn assert_copies_are_whole(gateway: &Gateway, states: &[Content; 2], n: u64) {
    for entry in fs::read_dir(gateway.data_dir()).unwrap().map(|it| it.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap();
        let is_log = name.ends_with("-wal") || name.ends_with("-shm");
        if name.starts_with("gantry.db.before-restore-") && !is_log {
            state_of(&content(&format!("sqlite://{}", entry.display())).await, states, n);
            remove(&entry);
        }
    }
    let Ok(dumps) = fs::read_dir(gateway.data_dir().join("backups")) else { return };
    for path in dumps.map(|it| it.unwrap().path()) {
        if path.extension().is_some_and(|it| it == "sql") {
            let problems = check_dump(fs::File::open(&path).unwrap()).problems;
            assert!(problems.is_empty(), "{n}: {}: {problems:?}", path.display());
        }
        fs::remove_file(&path).unwrap();
    }
}

/// Removes a SQLite file with what SQLite puts beside it.
fn remove(file: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", file.display()));
    }
}

async fn restores_are_cut_off(database: Database, kills: u64) {
    let (_, mut random) = random();
    let (mut gateway, owner) = site(database).await;
    let states = two_states(&gateway, &owner).await;
    let (data, url) = (gateway.data_dir().display().to_string(), url(&gateway));
    let packages = super::STATES.map(|it| folder(&gateway, it).display().to_string());
    let restore =
        |to: usize| ["restore", packages[to].as_str(), "--yes", "--data-dir", &data, "--database-url", &url];
    assert!(gateway.terminate());
    let begun = Instant::now();
    succeeds(&restore(0));
    let (took, mut now, mut n_completed) = (begun.elapsed(), 0, 0);
    let begun = Instant::now();
    for n in 0..kills {
        let to = 1 - now;
        let done = cut_off(&restore(to), moment(&mut random, took)).await;
        // As a gateway does when it starts: a file that was complete gets its name now.
        Store::open(&url).await.unwrap().close().await;
        let reached = state_of(&content(&url).await, &states, n);
        assert!(!done || reached == to, "{n}: it said that it was done");
        n_completed += u64::from(done);
        let said = succeeds(&restore(to));
        assert!(said.contains("restored and proven"), "{n}: {said}");
        assert_eq!(content(&url).await, states[to], "{n}");
        assert_eq!(left(&gateway), [""; 0], "{n}");
        assert_copies_are_whole(&gateway, &states, n).await;
        now = to;
    }
    told(&format!("`gantry restore`, {database:?}"), [n_completed, kills], begun);
    println!("`gantry restore` takes {took:?}");
    gateway.restart().await;
    gateway.owner().await;
}

#[tokio::test]
async fn the_command_restore_that_is_killed_leaves_the_old_or_the_new_sqlite_file() {
    restores_are_cut_off(Database::Sqlite, kills().div_ceil(2)).await;
}

#[tokio::test]
async fn the_command_restore_that_is_killed_leaves_the_old_or_the_new_postgres_database() {
    if Database::all("deployment: `gantry restore` that is killed").contains(&Database::Postgres) {
        restores_are_cut_off(Database::Postgres, kills().div_ceil(2)).await;
    }
}

/// Empties a database.
async fn clear(url: &str) {
    if let Some(file) = url.strip_prefix("sqlite://") {
        return remove(Path::new(file));
    }
    let (server, schema) = url.split_once("?options=-csearch_path%3D").unwrap();
    let mut conn = PgConnection::connect(server).await.unwrap();
    let sql = format!("DROP SCHEMA \"{schema}\" CASCADE; CREATE SCHEMA \"{schema}\"");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Whether nothing was copied into a database. What a killed command has made of its schema is completed first, as by the
/// next run.
async fn is_empty(url: &str) -> bool {
    let store = Store::open(url).await.unwrap();
    let unused = store.check_unused().await.is_ok();
    store.close().await;
    unused
}

async fn promotions_are_cut_off(from: Database, to: Database, kills: u64) {
    let (_, mut random) = random();
    let (mut gateway, owner) = site(from).await;
    make_org(&owner, "Analysts").await;
    add_usage(&gateway, 0..1500).await;
    // It has a schema, or a folder for a file.
    let mut there = start(Options { owner: false, ..Options::default() }.on(to)).await;
    assert!(gateway.terminate() && there.terminate());
    let (data, source) = (gateway.data_dir().display().to_string(), url(&gateway));
    let target = match to {
        Database::Sqlite => format!("sqlite://{}", there.data_dir().join("new.db").display()),
        Database::Postgres => url(&there),
    };
    let wanted = content(&source).await;
    let args = ["db", "promote", "--to", &target, "--data-dir", &data, "--database-url", &source];
    clear(&target).await;
    let begun = Instant::now();
    succeeds(&args);
    let (took, mut n_completed) = (begun.elapsed(), 0);
    let begun = Instant::now();
    for n in 0..kills {
        clear(&target).await;
        let done = cut_off(&args, moment(&mut random, took)).await;
        let empty = is_empty(&target).await;
        assert!(!(done && empty), "{n}: it said that it was done");
        assert!(empty || content(&target).await == wanted, "{n}: neither empty nor the copy");
        n_completed += u64::from(done);
        let said = succeeds(&args);
        assert!(said.contains("copied and proven"), "{n}: {said}");
        assert_eq!(content(&target).await, wanted, "{n}");
        assert_eq!(content(&source).await, wanted, "{n}: the old one is as it was");
        assert_eq!(left(&gateway), [""; 0], "{n}");
    }
    told(&format!("`gantry db promote`, {from:?} to {to:?}"), [n_completed, kills], begun);
    println!("`gantry db promote` takes {took:?}");
}

#[tokio::test]
async fn the_command_promote_that_is_killed_has_copied_all_or_nothing() {
    let databases = Database::all("deployment: `gantry db promote` that is killed");
    if databases.contains(&Database::Postgres) {
        let kills = kills().div_ceil(4);
        promotions_are_cut_off(Database::Sqlite, Database::Postgres, kills).await;
        promotions_are_cut_off(Database::Postgres, Database::Sqlite, kills).await;
    }
}
