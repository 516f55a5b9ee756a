//! Reads of the database whose readers go away or stand still: nothing is kept from others meanwhile or afterwards.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use gantry_domain::audit::{Action, Actor, AuditEntry, Origin};
use gantry_store::Store;
use gantry_testkit::{Database, Options, PATIENCE, Postgres, eventually, now};
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::task::JoinSet;

use crate::support::{GANTRY, gateway, start};

/// More than a pipe, the pages of an export and its buffers hold.
const ROWS: usize = 4000;

#[tokio::test]
async fn reads_that_are_left_on_postgres_keep_nothing_from_others() {
    let Some(database) = Postgres::start("left_reads: Postgres") else { return };
    let gateway = start(Options::default().env("DATABASE_URL", &database.url())).await;
    let owner = gateway.owner().await;
    for _ in 0..4 {
        let locks = database.lock("usage, usage_rollups");
        let mut reads = JoinSet::new();
        for _ in 0..12 {
            let owner = owner.clone();
            reads.spawn(async move { owner.get("/admin/usage/aggregate").await.status });
        }
        eventually("one waits at the server", PATIENCE, async || {
            (database.waiting("FROM usage") > 0).then_some(())
        })
        .await;
        // Those who asked are gone.
        reads.shutdown().await;
        for path in ["/admin/keys", "/admin/models", "/auth/me"] {
            assert_eq!(owner.get(path).await.status, 200, "{path}");
        }
        drop(locks);
        assert_eq!(
            owner.get("/admin/usage/aggregate").await.status,
            200,
            "there is a place, and a connection"
        );
    }
    // Ten connections, three for quick questions, and some of the gateway's own.
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gantry'";
    eventually("connections that were left are closed", PATIENCE, async || {
        (database.sql(count).parse::<usize>().unwrap() <= 15).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_audit_export_into_a_pipe_that_stands_still_holds_up_nobody_and_is_whole() {
    for database in Database::all("left_reads: audit export") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let sqlite = format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
        let url = gateway.database_url().unwrap_or(sqlite);
        let store = Store::open(&url).await.unwrap();
        let mut tx = store.write().await.unwrap();
        for n in 0..ROWS {
            let entry = AuditEntry::new(Actor::Settings, Origin::default(), Action::OrgCreate, n);
            tx.audit(&entry, now()).await.unwrap();
        }
        tx.commit().await.unwrap();

        let mut command = Command::new(GANTRY);
        command.args(["audit", "export"]).env_clear().env("DATA_DIR", gateway.data_dir());
        if let Some(url) = gateway.database_url() {
            command.env("DATABASE_URL", url);
        }
        let mut export = command.current_dir(gateway.data_dir()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(export.stdout.take().unwrap());
        let mut text = String::new();
        lines.read_line(&mut text).unwrap();
        // It can't go on. Nobody waits for it, and no transaction of it is open.
        for n in 0..20 {
            let body = serde_json::json!({ "name": format!("meanwhile {n}") });
            assert_eq!(owner.post("/admin/orgs", &body).await.status, 201);
        }
        match gateway.database_url() {
            None => {
                let file = gateway.data_dir().join("gantry.db");
                eventually("the write-ahead log can be emptied", PATIENCE, async || {
                    let mut conn =
                        SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&file))
                            .await
                            .unwrap();
                    let (busy, _, _): (i64, i64, i64) =
                        sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut conn).await.unwrap();
                    conn.close().await.unwrap();
                    (busy == 0).then_some(())
                })
                .await;
            }
            Some(url) => {
                let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gantry' AND state LIKE \
                           'idle in transaction%' AND now() - state_change > interval '1 s'";
                let psql = Command::new("psql").args([&url, "-XAtqc", sql]).output().unwrap();
                assert_eq!(String::from_utf8_lossy(&psql.stdout).trim(), "0");
            }
        }
        lines.read_to_string(&mut text).unwrap();
        assert!(export.wait().unwrap().success());
        let file = gateway.data_dir().join("audit.jsonl");
        std::fs::write(&file, &text).unwrap();
        let check = Command::new(GANTRY).args(["audit", "verify", "--file"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&check.stdout);
        assert!(
            check.status.success() && text.lines().count() >= ROWS,
            "{} lines: {said}",
            text.lines().count()
        );
    }
}
