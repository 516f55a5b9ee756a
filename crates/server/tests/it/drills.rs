//! Restore drills: whether the newest backup can be restored, found out before it is needed.

use std::{fs, process::Command};

use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, eventually, now};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::{
    events::{Event, Stream},
    support::{GANTRY, start},
};

/// Waits until readiness says this of the drills, and returns all of it.
async fn says(gateway: &Gateway, what: &str) -> Value {
    let client = gateway.client();
    let seen = async || {
        let ready = client.get("/readyz").await.json;
        // It is `ok` as well before the first drill has ended, and so early the container runtime may not have answered yet.
        let ended = what != "ok" || (ready["last_proven_restore"].is_string() && ready["status"] == "ready");
        (ended && ready["checks"]["restore_drill"].as_str()?.contains(what)).then_some(ready)
    };
    eventually(what, PATIENCE, seen).await
}

/// Copies the database into a folder of backups.
fn back_up(gateway: &Gateway, name: &str) -> std::path::PathBuf {
    let dir = gateway.data_dir().join("backups").join(name);
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    let mut command = Command::new(GANTRY);
    command.args(["backup", dir.to_str().unwrap(), "--data-dir", gateway.data_dir().to_str().unwrap()]);
    command.args(gateway.database_url().into_iter().flat_map(|it| ["--database-url".to_owned(), it]));
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    dir
}

/// Makes the next start do a drill.
async fn forget(gateway: &Gateway) {
    const SQL: &str = "DELETE FROM meta WHERE key LIKE 'restore_drill/%'";
    if let Some(url) = gateway.database_url() {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        sqlx::query(SQL).execute(&mut conn).await.unwrap();
    } else {
        let url = format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query(SQL).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }
}

async fn metric(gateway: &Gateway, name: &str) -> Option<f64> {
    let log = gateway.log();
    let addr = log.lines().filter_map(|it| it.split("metrics addr=").nth(1)).next_back()?.trim();
    let text = reqwest::get(format!("http://{addr}/metrics")).await.unwrap().text().await.unwrap();
    let line = text.lines().find(|it| it.starts_with(&format!("{name} ")))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn the_newest_backup_is_restored_for_a_trial_and_the_result_is_told() {
    for database in Database::all("drills") {
        let mut gateway = start(Options::default().on(database).env("RESTORE_DRILL", "daily")).await;
        let ready = says(&gateway, "there is nothing to restore from").await;
        assert_eq!(
            (&ready["status"], &ready["last_proven_restore"]),
            (&json!("degraded"), &Value::Null),
            "{ready}"
        );
        assert_eq!(metric(&gateway, "gantry_restore_drill_last_result").await, Some(0.0));
        assert_eq!(metric(&gateway, "gantry_restore_drill_last_success_timestamp_seconds").await, None);

        let good = back_up(&gateway, "first");
        assert!(gateway.terminate());
        gateway.restart().await;
        let ready = says(&gateway, "ok").await;
        let proven = ready["last_proven_restore"].clone();
        assert!(proven.is_string(), "{ready}");
        assert_eq!(metric(&gateway, "gantry_restore_drill_last_result").await, Some(1.0));
        assert!(metric(&gateway, "gantry_restore_drill_last_success_timestamp_seconds").await.unwrap() > 1e9);
        assert!(gateway.log().contains(good.to_str().unwrap()), "{}", gateway.log());
        let status = Command::new(GANTRY).args(["status", "--url", &gateway.url]).output().unwrap();
        let status = String::from_utf8(status.stdout).unwrap();
        assert!(status.contains("last proven restore: just now"), "{status}");
        assert!(!gateway.data_dir().join("restore-drill.db").exists(), "nothing is left of it");

        // It is known after a restart, and not done again before the day is over.
        assert!(gateway.terminate());
        gateway.restart().await;
        assert_eq!(says(&gateway, "ok").await["last_proven_restore"], proven);

        // A newer one that is damaged.
        let bad = back_up(&gateway, "second");
        let file =
            ["gantry.db", "db/dump.sql"].map(|it| bad.join(it)).into_iter().find(|it| it.exists()).unwrap();
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        assert!(gateway.terminate());
        forget(&gateway).await;
        gateway.restart().await;
        let ready = says(&gateway, "could not be restored for a trial").await;
        assert_eq!(ready["status"], "degraded");
        assert!(!ready.to_string().contains("second"), "anybody may read it: {ready}");
        assert!(gateway.log().contains(bad.to_str().unwrap()), "{}", gateway.log());
        assert_eq!(gateway.owner().await.get("/auth/me").await.status, 200, "the live database is as it was");
    }
}

#[tokio::test]
async fn without_the_setting_there_are_no_drills_and_no_check() {
    let gateway = start(Options::default()).await;
    let ready = gateway.client().get("/readyz").await.expect(200);
    assert_eq!(
        (&ready["status"], &ready["checks"]["restore_drill"]),
        (&json!("ready"), &Value::Null),
        "{ready}"
    );
    assert_eq!(metric(&gateway, "gantry_restore_drill_last_result").await, None);
}

/// Ends the gateway, and starts it again with a last drill that succeeded at this time, in milliseconds since 1970. Returns a
/// new session.
async fn last_drill_was(gateway: &mut Gateway, at: i64) -> Client {
    const SQL: &str = "UPDATE meta SET value = $1 WHERE key LIKE 'restore_drill/%'";
    assert!(gateway.terminate());
    let value = json!({ "at": at, "backup": "/b", "error": null, "proven_at": at }).to_string();
    let rows = if let Some(url) = gateway.database_url() {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        sqlx::query(SQL).bind(&value).execute(&mut conn).await.unwrap().rows_affected()
    } else {
        let url = format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        let done = sqlx::query(SQL).bind(&value).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        done.rows_affected()
    };
    assert_eq!(rows, 1);
    gateway.restart().await;
    gateway.owner().await
}

const DAY_MS: i64 = 86_400_000;

/// The event of the next weekly drill, which is due soon after the gateway has come up.
async fn next_drill(gateway: &mut Gateway) -> Event {
    let owner = last_drill_was(gateway, now().0 - 7 * DAY_MS + 15_000).await;
    let event = Stream::open(&owner, "", None).await.next_of("restore_drill").await;
    println!("{}", event.data);
    event
}

#[tokio::test]
async fn a_weekly_drill_proves_the_newest_package_and_its_result_is_an_event() {
    for database in Database::one("drills: weekly, packages, events") {
        let options = Options::processes().on(database).env("RESTORE_DRILL", "weekly");
        let mut gateway = start(options).await;
        says(&gateway, "there is nothing to restore from").await;
        let owner = gateway.owner().await;
        let job = owner.post("/admin/deployment/export", &json!({ "output_dir": "p" })).await.expect(202);
        let path = format!("/admin/deployment/jobs/{}", job["id"].as_str().unwrap());
        eventually("the export completes", PATIENCE, async || {
            (owner.get(&path).await.expect(200)["status"] == "completed").then_some(())
        })
        .await;
        let package = gateway.data_dir().join("exports/p");

        // Within the week nothing is done.
        let at = now().0 - 6 * DAY_MS;
        last_drill_was(&mut gateway, at).await;
        let ready = says(&gateway, "ok").await;
        assert_eq!(ready["last_proven_restore"], gantry_domain::Timestamp(at).rfc3339(), "{ready}");

        let event = next_drill(&mut gateway).await;
        assert_eq!((&event.data["ok"], &event.data["error"]), (&json!(true), &Value::Null));
        assert_eq!(event.data["backup"], package.to_str().unwrap());
        let ready = says(&gateway, "ok").await;
        assert_eq!(ready["last_proven_restore"], event.data["at"], "{ready}");
        assert_eq!(metric(&gateway, "gantry_restore_drill_last_result").await, Some(1.0));

        // The dump is not the one that the package's manifest describes.
        let dump = package.join("db/dump.sql");
        let text = fs::read_to_string(&dump).unwrap();
        fs::write(&dump, format!("{text}\n")).unwrap();
        let event = next_drill(&mut gateway).await;
        assert_eq!(event.data["ok"], false);
        assert_eq!(event.data["backup"], package.to_str().unwrap());
        assert!(!event.data["error"].as_str().unwrap().is_empty());
        let ready = says(&gateway, "could not be restored for a trial").await;
        assert_eq!(ready["status"], "degraded", "{ready}");
        assert_eq!(metric(&gateway, "gantry_restore_drill_last_result").await, Some(0.0));
        assert!(!gateway.data_dir().join("restore-drill.db").exists(), "nothing is left of it");
    }
}
