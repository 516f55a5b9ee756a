//! `gantry restore` for a gateway that is stopped or can't start, and `gantry db promote`.

use std::{fs, path::Path};

use gantry_testkit::{Client, Database, Gateway, Options, eventually};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::{
    Shell,
    offline::{settings_of, words},
};
use crate::support::{gateway, start};

/// Names of all organisations.
async fn orgs(owner: &Client) -> Vec<String> {
    let list = owner.get("/admin/orgs").await.expect(200);
    let names = list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

async fn add_org(owner: &Client, name: &str) {
    owner.post("/admin/orgs", &json!({ "name": name })).await.expect(201);
}

/// Exports a package with the database only, and returns its folder.
pub(super) async fn exported(gateway: &Gateway, owner: &Client, name: &str) -> std::path::PathBuf {
    let body = json!({ "output_dir": name, "include_images": false });
    let job = owner.post("/admin/deployment/export", &body).await.expect(202);
    let path = format!("/admin/deployment/jobs/{}", job["id"].as_str().unwrap());
    let ended = async || {
        let job = owner.get(&path).await.expect(200);
        (job["status"] != "running").then_some(job)
    };
    let job = eventually("the export ends", gantry_testkit::PATIENCE, ended).await;
    assert_eq!(job["status"], "completed", "{job}");
    gateway.data_dir().join("exports").join(name)
}

/// The word after `label` on its line.
fn told<'a>(text: &'a str, label: &str) -> &'a str {
    let line =
        text.lines().find_map(|it| it.strip_prefix(label)).unwrap_or_else(|| panic!("{label}: {text}"));
    line.trim()
}

#[tokio::test]
async fn a_backup_is_put_in_place_while_the_gateway_is_stopped_and_the_old_database_is_kept() {
    for database in Database::all("cli: restore") {
        let mut gateway = gateway(database).await;
        let owner = gateway.owner().await;
        add_org(&owner, "Analysts").await;
        let (_, client) = owner.new_key(&json!({ "name": "kept" })).await;
        let shell = Shell::of_owner(&gateway);
        let (flags, dir) = (settings_of(&gateway), shell.home.path().join("backup"));
        let flags = words(&flags);
        let dir = dir.to_str().unwrap();
        let backup = shell.run(&[&["backup", dir][..], &flags].concat()).ends(0);
        assert!(backup.err.contains("gantry restore"), "{}", backup.err);
        add_org(&owner, "Later").await;

        let restore = |more: &[&str]| shell.run(&[&["restore", dir], more, &flags].concat());
        let refused = restore(&["--yes"]).ends(1).err;
        assert!(
            refused.contains("must be stopped") && refused.contains("gantry package restore"),
            "{refused}"
        );
        let proven = restore(&["--dry-run", "--json"]).ends(0).json();
        assert_eq!(
            (&proven["dry_run"], &proven["proof"]["rows"]["orgs"]),
            (&json!(true), &json!(2)),
            "{proven}"
        );
        assert_eq!(orgs(&owner).await, ["Analysts", "Default", "Later"], "a dry run changes nothing");
        if database == Database::Postgres {
            // Another data directory than that of the gateway: its lock is free, but the gateway is there.
            let elsewhere = shell.home.path().join("elsewhere");
            let flags = ["--data-dir", elsewhere.to_str().unwrap(), "--database-url", flags[3]];
            let refused = shell.run(&[&["restore", dir, "--yes"][..], &flags].concat()).ends(1).err;
            assert!(refused.contains("a gateway supervises the models"), "{refused}");
        }

        assert!(gateway.terminate());
        let refused = restore(&[]).ends(2).err;
        assert!(refused.contains("--yes"), "{refused}");
        let done = restore(&["--yes"]).ends(0).out;
        assert!(
            done.contains("restored and proven") && done.contains("owners     that may sign in: 1"),
            "{done}"
        );
        let kept = told(&done, "the database as it was:").to_owned();
        gateway.restart().await;
        assert_eq!(owner.moved(&gateway.url).get("/auth/me").await.status, 401, "sessions end");
        let owner = gateway.owner().await;
        assert_eq!(orgs(&owner).await, ["Analysts", "Default"]);
        assert_eq!(gateway.client_of(&client).get("/v1/models").await.status, 200, "the key is there");

        // What was replaced is whole, and goes back the same way.
        assert!(gateway.terminate());
        let back = shell.run(&[&["restore", &kept, "--yes"][..], &flags].concat()).ends(0).out;
        assert!(Path::new(told(&back, "the database as it was:")).is_file(), "{back}");
        gateway.restart().await;
        assert_eq!(orgs(&gateway.owner().await).await, ["Analysts", "Default", "Later"]);
        let verified = shell.run(&[&["audit", "verify"][..], &flags].concat()).ends(0).out;
        assert!(verified.starts_with("OK: "), "{verified}");
    }
}

#[tokio::test]
async fn a_database_that_nothing_can_open_is_replaced_by_that_of_a_package() {
    let mut gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    add_org(&owner, "Analysts").await;
    let package = exported(&gateway, &owner, "nightly").await;
    assert!(gateway.terminate());
    let file = gateway.data_dir().join("gantry.db");
    let garbage = vec![b'x'; 100_000];
    fs::write(&file, &garbage).unwrap();
    let shell = Shell::at(&gateway.url);
    let flags = settings_of(&gateway);
    let restore = |path: &Path| {
        shell.run(&[&["restore", path.to_str().unwrap(), "--yes"][..], &words(&flags)].concat())
    };

    // One changed byte, which is no error of the format: the package's manifest knows.
    let other = shell.home.path().join("other");
    gantry_testkit::copy(&package, &other);
    let dump = fs::read_to_string(other.join("db/dump.sql")).unwrap();
    assert!(dump.contains("gateway_version\":\"0."), "{}", &dump[..300]);
    fs::write(
        other.join("db/dump.sql"),
        dump.replacen("gateway_version\":\"0.", "gateway_version\":\"1.", 1),
    )
    .unwrap();
    let refused = restore(&other).ends(1).err;
    assert!(refused.contains("not the dump that the package's manifest describes"), "{refused}");
    fs::remove_file(other.join("manifest.json")).unwrap();
    fs::remove_dir_all(other.join("db")).unwrap();
    let refused = restore(&other).ends(1).err;
    assert!(refused.contains("neither a package nor a backup"), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), garbage, "nothing was changed");

    let done = restore(&package).ends(0).out;
    assert!(done.contains("in package "), "{done}");
    assert_eq!(fs::read(told(&done, "the database as it was:")).unwrap(), garbage);
    gateway.restart().await;
    assert_eq!(orgs(&gateway.owner().await).await, ["Analysts", "Default"]);
}

#[tokio::test]
async fn a_backup_restores_into_an_empty_data_directory_with_its_secrets() {
    // Each has keys of its own, in its data directory.
    let original = start(Options::default().env("SECRETS_KEY", "")).await;
    let owner = original.owner().await;
    add_org(&owner, "Analysts").await;
    let entry = json!({ "served_name": "far", "urls": ["http://127.0.0.1:9"], "api_key": "sk-far-away" });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    let shell = Shell::at(&original.url);
    let dir = shell.home.path().join("backup");
    let flags = settings_of(&original);
    shell.run(&[&["backup", dir.to_str().unwrap()][..], &words(&flags)].concat()).ends(0);

    let mut other = start(Options { owner: false, ..Options::default() }.env("SECRETS_KEY", "")).await;
    assert!(other.terminate());
    let before = fs::read_to_string(other.data_dir().join("secrets/session")).unwrap();
    fs::remove_file(other.data_dir().join("gantry.db")).unwrap();
    let flags = settings_of(&other);
    let done = shell.run(&[&["restore", dir.to_str().unwrap()][..], &words(&flags)].concat()).ends(0).out;
    assert!(done.contains("keys that were added to"), "{done}");
    let keys = |dir: &Path| fs::read_to_string(dir.join("secrets/database-keys")).unwrap();
    assert!(keys(&other.data_dir()).contains(keys(&dir).trim()));
    assert_eq!(fs::read_to_string(other.data_dir().join("secrets/session")).unwrap(), before, "its own stay");
    other.restart().await;
    assert_eq!(orgs(&other.owner().await).await, ["Analysts", "Default"]);
    assert!(!other.log().contains("can't decrypt"), "{}", other.log());
    assert_ne!(other.instance(), original.instance(), "a copy leaves the original's engines alone");
}

#[tokio::test]
async fn a_database_moves_to_postgres_and_back() {
    if !Database::all("cli: db promote").contains(&Database::Postgres) {
        return;
    }
    let mut small = start(Options::default().env("SECRETS_KEY", "")).await;
    let owner = small.owner().await;
    add_org(&owner, "Analysts").await;
    let entry = json!({ "served_name": "far", "urls": ["http://127.0.0.1:9"], "api_key": "sk-far-away" });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    let (_, client) = owner.new_key(&json!({ "name": "kept" })).await;
    let mut large = start(Options { owner: false, ..Options::default().on(Database::Postgres) }).await;
    let shell = Shell::at(&small.url);
    let (of_small, url) = (settings_of(&small), large.database_url().unwrap());
    let promote = |more: &[&str]| shell.run(&[&["db", "promote"], more, &words(&of_small)].concat());
    let refused = promote(&["--to", &url]).ends(1).err;
    assert!(refused.contains("another gateway uses DATA_DIR"), "{refused}");
    assert!(small.terminate() && large.terminate());
    let refused = promote(&["--to", &url]).ends(1).err;
    assert!(refused.contains("a gateway was started on it already"), "{refused}");
    let mut conn = PgConnection::connect(&url).await.unwrap();
    sqlx::query("DELETE FROM meta").execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    let done = promote(&["--to", &url]).ends(0).out;
    assert!(done.contains("copied and proven") && done.contains("DATABASE_URL"), "{done}");
    // Once more, as after a run that was killed before it could say so: the copy is there, and is proven again.
    let again = promote(&["--to", &url]).ends(0).out;
    assert!(again.contains("copied and proven"), "{again}");

    // The gateway with the data directory of the old one, whose keys open the secrets.
    small.set_env("DATABASE_URL", &url);
    small.restart().await;
    let owner = small.owner().await;
    assert_eq!(orgs(&owner).await, ["Analysts", "Default"]);
    assert_eq!(small.client_of(&client).get("/v1/models").await.status, 200);
    assert!(!small.log().contains("can't decrypt"), "{}", small.log());
    add_org(&owner, "Later").await;
    assert!(small.terminate());
    let refused = promote(&["--to", &url]).ends(1).err;
    assert!(refused.contains("it has users already"), "{refused}");

    let back = shell.home.path().join("back.db");
    let to = shell.home.path().join("address");
    fs::write(&to, format!("sqlite://{}\n", back.display())).unwrap();
    let of_large =
        ["--data-dir", small.data_dir().to_str().unwrap(), "--database-url", &url].map(str::to_owned);
    let args = ["db", "promote", "--json", "--to-file", to.to_str().unwrap()];
    let done: Value = shell.run(&[&args[..], &words(&of_large)].concat()).ends(0).json();
    assert_eq!(done["proof"]["rows"]["orgs"], 3, "{done}");
    small.set_env("DATABASE_URL", &format!("sqlite://{}", back.display()));
    small.restart().await;
    assert_eq!(orgs(&small.owner().await).await, ["Analysts", "Default", "Later"]);
}
