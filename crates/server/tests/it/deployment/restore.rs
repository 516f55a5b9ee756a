//! `restore-database`: the database is the old or the new one, and the job's record says which.

use std::{fs, process::Command};

use gantry_testkit::{Client, Database, Gateway, PATIENCE, eventually, skip};
use serde_json::{Value, json};

use super::{EXPORT, RESTORE, carry, completes, export, fails, folder, restored, site, tiny};
use crate::{
    support::{assert_error, column},
    team::make_org,
};

/// The names of all organisations.
async fn orgs(owner: &Client) -> Vec<String> {
    let listed = owner.get("/admin/orgs").await.expect(200);
    let mut names: Vec<_> =
        column(&listed, "name").into_iter().map(|it| it.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// A gateway with the package `p`, which was written before the organisation `Late` was made.
async fn exported(database: Database) -> (Gateway, Client) {
    let (gateway, owner) = site(database).await;
    make_org(&owner, "Early").await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    export(&owner, "p").await;
    make_org(&owner, "Late").await;
    (gateway, owner)
}

fn drop_existing(name: &str) -> Value {
    json!({ "output_dir": name, "drop_existing": true })
}

#[tokio::test]
async fn restore_database_brings_back_what_was_exported() {
    for database in Database::all("deployment: restore") {
        let (gateway, owner) = exported(database).await;
        let (key, _) = owner.new_key(&json!({})).await;
        let (after, job) = restored(&gateway, &owner, &drop_existing("p")).await;
        assert_eq!((&job["job_type"], &job["status"]), (&json!("db_restore"), &json!("completed")), "{job}");
        assert_eq!(orgs(&after).await, ["Default", "Early"]);
        assert_eq!(column(&after.get("/admin/models").await.expect(200), "served_name"), ["tiny"]);
        // Sessions ended, and a key that the dump does not have is of no use any more.
        let signed_out = async || (owner.get("/auth/me").await.status == 401).then_some(());
        eventually("the session ends", PATIENCE, signed_out).await;
        let client = gateway.client().with_key(key["token"].as_str().unwrap());
        let refused = async || (client.get("/v1/models").await.status == 401).then_some(());
        eventually("the key is gone", PATIENCE, refused).await;
        let proof = &job["artifacts"]["proof"];
        assert_eq!((&proof["rows"]["orgs"], &proof["rows"]["users"]), (&json!(2), &json!(1)), "{job}");
        let row = &after.get("/admin/audit?action=database.restore").await.expect(200)[0];
        assert_eq!(row["after"]["drop_existing"], true, "{row}");
        // The gateway works on: it writes, and what it makes has a number of its own.
        make_org(&after, "Later").await;
        completes(&after, EXPORT, &json!({ "output_dir": "again" })).await;
    }
}

#[tokio::test]
async fn restore_database_backup_first_writes_a_backup_that_brings_the_old_state_back() {
    for database in Database::all("deployment: backup_first") {
        let (gateway, owner) = exported(database).await;
        let (owner, job) = restored(&gateway, &owner, &drop_existing("p")).await;
        let backup = job["artifacts"]["backup"].as_str().expect("it is made unless it is refused").to_owned();
        assert!(backup.starts_with("db/pre_restore_backup/"), "{backup}");
        super::assert_whole(&folder(&gateway, "p"));
        let mut back = drop_existing("p");
        back["db_file"] = json!(backup);
        back["backup_first"] = json!(false);
        let (owner, job) = restored(&gateway, &owner, &back).await;
        assert_eq!(
            (&job["status"], &job["artifacts"]["backup"]),
            (&json!("completed"), &Value::Null),
            "{job}"
        );
        assert_eq!(orgs(&owner).await, ["Default", "Early", "Late"]);
        let kept = fs::read_dir(folder(&gateway, "p").join("db/pre_restore_backup")).unwrap().count();
        assert_eq!(kept, 1, "no backup was asked for");
    }
}

#[tokio::test]
async fn restore_database_drop_existing_deletes_what_is_there_and_without_it_a_relation_already_exists() {
    for database in Database::all("deployment: drop_existing") {
        let (gateway, owner) = exported(database).await;
        let said = fails(&owner, RESTORE, &json!({ "output_dir": "p" })).await;
        assert!(said.contains("relation already exists") && said.contains("drop_existing"), "{said}");
        assert_eq!(orgs(&owner).await, ["Default", "Early", "Late"]);
        assert!(!folder(&gateway, "p").join("db/pre_restore_backup").exists());
        let mut body = drop_existing("p");
        body["backup_first"] = json!(false);
        let (owner, job) = restored(&gateway, &owner, &body).await;
        assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
        assert_eq!(orgs(&owner).await, ["Default", "Early"]);
    }
}

#[tokio::test]
async fn restore_database_reads_the_dump_from_the_db_directory_and_no_file_outside_the_folder() {
    for database in Database::one("deployment: db_file") {
        let (gateway, owner) = exported(database).await;
        let dir = folder(&gateway, "p");
        // The name that is taken if none is given; nowhere else in the folder is one looked for.
        fs::rename(dir.join("db/dump.sql"), dir.join("dump.sql")).unwrap();
        assert_error(&owner.post(RESTORE, &drop_existing("p")).await, 404, "not_found");
        fs::rename(dir.join("dump.sql"), dir.join("db/dump.sql")).unwrap();
        fs::copy(dir.join("db/dump.sql"), dir.join("db/other.sql")).unwrap();
        let mut body = drop_existing("p");
        body["db_file"] = json!("db/other.sql");
        let (owner, job) = restored(&gateway, &owner, &body).await;
        assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
        assert_eq!(orgs(&owner).await, ["Default", "Early"]);
        body["db_file"] = json!("db/none.sql");
        assert_error(&owner.post(RESTORE, &body).await, 404, "not_found");
        body["db_file"] = json!("../q/db/dump.sql");
        assert_error(&owner.post(RESTORE, &body).await, 422, "path_not_allowed");
        std::os::unix::fs::symlink("/etc/passwd", dir.join("db/link.sql")).unwrap();
        body["db_file"] = json!("db/link.sql");
        assert_error(&owner.post(RESTORE, &body).await, 422, "path_not_allowed");
    }
}

/// A dump of the real `pg_dump`, with the lines that its releases since August 2025 write.
#[tokio::test]
async fn restore_database_strips_the_restrict_and_unrestrict_lines_of_pg_dump() {
    const TEST: &str = "deployment: pg_dump";
    let databases = Database::all(TEST);
    if !databases.contains(&Database::Postgres) {
        return;
    }
    let (here, _owner) = exported(Database::Postgres).await;
    let url = here.database_url().unwrap();
    let (server, schema) = url.split_once("?options=-csearch_path%3D").unwrap();
    let ran = Command::new("pg_dump").args([server, "--no-owner", "--schema", schema]).output();
    let Ok(ran) = ran else {
        skip(TEST, "there is no `pg_dump`");
        return;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut dump = String::from_utf8(ran.stdout).unwrap();
    if !dump.contains("\n\\restrict ") {
        dump = dump.replacen("\n\n", "\n\n\\restrict aB3\n\n", 1) + "\\unrestrict aB3\n\n";
    }
    assert!(dump.contains("\n\\unrestrict "));
    for database in databases {
        let (there, owner) = site(database).await;
        let dir = folder(&there, "p");
        fs::create_dir_all(dir.join("db")).unwrap();
        fs::write(dir.join("db/dump.sql"), &dump).unwrap();
        let (owner, job) = restored(&there, &owner, &drop_existing("p")).await;
        assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
        assert_eq!(orgs(&owner).await, ["Default", "Early", "Late"]);
    }
}

#[tokio::test]
async fn restore_database_of_a_bad_dump_changes_nothing_and_says_where() {
    for database in Database::all("deployment: bad dumps") {
        let (gateway, owner) = exported(database).await;
        let dir = folder(&gateway, "p");
        let dump = fs::read_to_string(dir.join("db/dump.sql")).unwrap();
        let canary = gateway.data_dir().join("canary");
        let end = dump.find("-- gantry-proof").unwrap();
        let with = |line: &str| format!("{}{line}\n{}", &dump[..end], &dump[end..]);
        let bad = [
            with(&format!("\\! touch {}", canary.display())),
            with(&format!("COPY users FROM PROGRAM 'touch {}';", canary.display())),
            with("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1';"),
            with("DROP TABLE users;"),
            with(&format!("\\unrestrict `touch {}`", canary.display())),
            dump[..end].to_owned(),
            dump.replace("\tEarly\t", "\tEarlx\t"),
            dump.replacen("\"schema_version\":", "\"schema_version\":9", 1),
            String::new(),
        ];
        for (n, text) in bad.iter().enumerate() {
            assert_ne!(*text, dump, "{n}");
            fs::write(dir.join("db/bad.sql"), text).unwrap();
            let mut body = drop_existing("p");
            body["db_file"] = json!("db/bad.sql");
            body["backup_first"] = json!(false);
            let said = fails(&owner, RESTORE, &body).await;
            assert!(!said.is_empty() && !canary.exists(), "{n}: {said}");
            println!("{n}: {said}");
        }
        // The package's own dump must be the one that its manifest describes.
        fs::write(dir.join("db/dump.sql"), format!("{dump}\n")).unwrap();
        let said = fails(&owner, RESTORE, &drop_existing("p")).await;
        assert!(said.contains("SHA-256"), "{said}");
        assert_eq!(orgs(&owner).await, ["Default", "Early", "Late"]);
        assert_eq!(super::scratch(&gateway), [""; 0]);
    }
}

/// SQLite into SQLite, Postgres into Postgres, and each into the other, at a gateway that was set up a moment ago.
#[tokio::test]
async fn restore_database_takes_a_dump_of_any_database_into_any_other() {
    let databases = Database::all("deployment: from one database into another");
    for from in &databases {
        let (here, owner) = exported(*from).await;
        let (_, client) = owner.new_key(&json!({})).await;
        export(&owner, "p").await;
        for to in &databases {
            let (there, owner) = site(*to).await;
            carry(&here, &there, "p");
            let (owner, job) = restored(&there, &owner, &drop_existing("p")).await;
            assert_eq!(
                (&job["status"], &job["error"]),
                (&json!("completed"), &Value::Null),
                "{from:?} to {to:?}: {job}"
            );
            assert_eq!(orgs(&owner).await, ["Default", "Early", "Late"]);
            // Keys are carried as hashes: they go on working.
            let client = there.client_of(&client);
            let works = async || (client.get("/v1/models").await.status == 200).then_some(());
            eventually("the key works there", PATIENCE, works).await;
            let check = owner.get("/admin/usage/integrity").await.expect(200);
            assert_eq!(check["ok"], true, "{check}");
        }
    }
}

#[tokio::test]
async fn restore_database_refuses_a_package_whose_manifest_is_damaged() {
    for database in Database::one("deployment: a restore with a damaged manifest") {
        let (gateway, owner) = exported(database).await;
        let file = folder(&gateway, "p").join("manifest.json");
        let whole = fs::read(&file).unwrap();
        for damaged in [&whole[..whole.len() / 2], b"", b"{}"] {
            fs::write(&file, damaged).unwrap();
            let said = fails(&owner, RESTORE, &drop_existing("p")).await;
            assert!(said.contains("manifest can't be used"), "{said}");
            assert_eq!(orgs(&owner).await, ["Default", "Early", "Late"]);
        }
        // A dump that is part of no package is restored by itself.
        fs::remove_file(&file).unwrap();
        let (owner, job) = restored(&gateway, &owner, &drop_existing("p")).await;
        assert_eq!(job["status"], "completed", "{job}");
        assert_eq!(orgs(&owner).await, ["Default", "Early"]);
    }
}
