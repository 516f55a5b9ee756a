//! Upgrades of the schema: the backup that a start makes before, and `gantry upgrade check`.

use std::{fs, path::PathBuf, process::Stdio};

use gantry_testkit::{Database, Gateway};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, SqliteConnection};

use super::{
    Ran, Shell,
    offline::{settings_of, words},
};
use crate::support::gateway;

/// What the last version of the schema added is taken back, so that the database is as an older program made it.
const OLDER: [&str; 2] = ["DROP TABLE deleted_names", "DELETE FROM _sqlx_migrations WHERE version = 17"];

fn address(gateway: &Gateway) -> String {
    gateway
        .database_url()
        .unwrap_or_else(|| format!("sqlite://{}", gateway.data_dir().join("gantry.db").display()))
}

async fn sql(gateway: &Gateway, statements: &[&'static str]) {
    let url = address(gateway);
    for statement in statements {
        if url.starts_with("sqlite:") {
            let mut conn = SqliteConnection::connect(&url).await.unwrap();
            sqlx::query(*statement).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        } else {
            let mut conn = PgConnection::connect(&url).await.unwrap();
            sqlx::query(*statement).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        }
    }
}

async fn version(gateway: &Gateway) -> i64 {
    const SQL: &str = "SELECT MAX(version) FROM _sqlx_migrations";
    let url = address(gateway);
    if url.starts_with("sqlite:") {
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        return sqlx::query_scalar(SQL).fetch_one(&mut conn).await.unwrap();
    }
    let mut conn = PgConnection::connect(&url).await.unwrap();
    sqlx::query_scalar(SQL).fetch_one(&mut conn).await.unwrap()
}

/// The backups from before upgrades.
fn backups(gateway: &Gateway) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(gateway.data_dir().join("backups")) else { return Vec::new() };
    let mut found: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
    found.sort();
    found
}

/// Starts a gateway that does not become ready.
fn refused(shell: &Shell, flags: &[&str]) -> String {
    let mut command = shell.command(&[&["serve"], flags].concat());
    command.env("CONTAINER_RUNTIME", "process").env("GATEWAY_LISTEN", "127.0.0.1:0");
    command.env("METRICS_LISTEN", "127.0.0.1:0").env("SECRETS_KEY", "5eed".repeat(16));
    Ran::of(command.stdin(Stdio::null()).output().unwrap()).ends(1).err
}

#[tokio::test]
async fn a_start_that_changes_the_schema_backs_the_database_up_first() {
    for database in Database::all("cli: upgrade") {
        let mut gateway = gateway(database).await;
        gateway.owner().await.post("/admin/orgs", &json!({ "name": "Analysts" })).await.expect(201);
        assert!(gateway.terminate());
        sql(&gateway, &OLDER).await;
        let shell = Shell::at(&gateway.url);
        let flags = settings_of(&gateway);
        let check = |more: &[&str]| shell.run(&[&["upgrade", "check"], more, &words(&flags)].concat());

        let said = check(&[]).ends(0).out;
        assert!(said.contains("version 16 becomes 17: 0017_deleted_names"), "{said}");
        assert!(said.contains("a copy was upgraded") && said.contains("0 broken"), "{said}");
        assert_eq!(version(&gateway).await, 16, "a check changes nothing");
        assert!(backups(&gateway).is_empty());
        let left: Vec<_> =
            fs::read_dir(gateway.data_dir()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(!left.iter().any(|it| it.to_string_lossy().starts_with("upgrade-check")), "{left:?}");

        gateway.restart().await;
        assert_eq!(version(&gateway).await, 17);
        let [backup] = &backups(&gateway)[..] else { panic!("{:?}", backups(&gateway)) };
        assert!(backup.to_str().unwrap().contains("before-upgrade-16-17-"), "{}", backup.display());
        assert!(gateway.log().contains("backed up, and now upgraded"), "{}", gateway.log());
        let args = ["restore", backup.to_str().unwrap(), "--dry-run", "--json"];
        let proven = shell.run(&[&args[..], &words(&flags)].concat()).ends(0).json();
        assert_eq!(proven["proof"]["rows"]["orgs"], 2, "{proven}");
        assert_eq!(check(&["--json"]).ends(0).json()["status"], "ok");
        let restarted = backups(&gateway);
        gateway.kill_and_restart().await;
        assert_eq!(backups(&gateway), restarted, "a start that changes nothing backs nothing up");
    }
}

#[tokio::test]
async fn without_its_backup_the_database_stays_as_it_is() {
    for database in Database::all("cli: upgrade without room") {
        let mut gateway = gateway(database).await;
        assert!(gateway.terminate());
        sql(&gateway, &OLDER).await;
        // No backup can be written here.
        fs::write(gateway.data_dir().join("backups"), "").unwrap();
        let shell = Shell::at(&gateway.url);
        let flags = settings_of(&gateway);
        let said = refused(&shell, &words(&flags));
        assert!(said.contains("nothing was changed") && said.contains("UPGRADE_BACKUP=off"), "{said}");
        assert_eq!(version(&gateway).await, 16);
        gateway.set_env("UPGRADE_BACKUP", "off");
        gateway.restart().await;
        assert_eq!(version(&gateway).await, 17);
        assert!(gateway.log().contains("upgraded without a backup"), "{}", gateway.log());
    }
}

#[tokio::test]
async fn an_older_program_says_how_to_go_back_and_that_works() {
    let mut gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    let flags = settings_of(&gateway);
    assert!(gateway.terminate());
    sql(&gateway, &OLDER).await;
    gateway.restart().await;
    assert!(gateway.terminate());
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 SELECT 9999, 'newer', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1";
    sql(&gateway, &[newer]).await;
    let said = refused(&shell, &words(&flags));
    let back = said.split("gantry restore ").nth(1).unwrap_or_else(|| panic!("{said}")).trim().to_owned();
    assert!(said.contains("schema version 9999") && back.contains("before-upgrade-16-17-"), "{said}");
    let check = shell.run(&[&["upgrade", "check"][..], &words(&flags)].concat()).ends(1).out;
    assert!(check.contains("9999") && check.contains("1 broken"), "{check}");
    shell.run(&[&["restore", &back, "--yes"][..], &words(&flags)].concat()).ends(0);
    gateway.restart().await;
    assert_eq!(gateway.owner().await.get("/auth/me").await.status, 200);
}

#[tokio::test]
async fn settings_and_models_that_this_program_refuses_are_named_before_the_upgrade() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    fs::write(gateway.models_dir().join("m.gguf"), "").unwrap();
    let model = json!({ "name": "q", "served_name": "qwen", "task": "generate", "engine_type": "llamacpp",
                        "local_path": "m.gguf", "device": "cpu" });
    owner.post("/admin/models", &model).await.expect(201);
    let shell = Shell::at(&gateway.url);
    let flags = settings_of(&gateway);
    let check = |more: &[&str]| shell.run(&[&["upgrade", "check"], more, &words(&flags)].concat());
    check(&[]).ends(0);
    // As a program made it in which the field had other values.
    sql(&gateway, &[r#"UPDATE models SET config = REPLACE(config, '"cpu"', '"abacus"')"#]).await;
    let said: Value = check(&["--json"]).ends(1).json();
    let found = said["checks"].as_array().unwrap().iter().find(|it| it["name"] == "models").unwrap();
    assert!(found["found"].as_str().unwrap().contains("device"), "{found}");
    let said = check(&["--stop-timeout-sec", "never"]).ends(1).out;
    assert!(said.contains("FAIL") && said.contains("STOP_TIMEOUT_SEC"), "{said}");
}
