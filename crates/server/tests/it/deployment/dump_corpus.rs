//! Every hostile dump that the store's reader knows, at the job that restores: it fails with the line, nothing is run, and
//! the database is the same afterwards.

use std::{fs, path::Path};

use gantry_testkit::Database;
use serde_json::json;

use super::{
    RESTORE, fails, folder,
    kills::{all_content, url},
    scratch, site,
};
use crate::team::make_org;

#[path = "../../../../store/tests/contract/hostile_dumps.rs"]
mod hostile_dumps;

use hostile_dumps::{HOSTILE, own_with};

/// Tries every `step`-th of the hostile dumps. The content of all tables is compared after each ten of them, and at the end.
async fn hostile_dumps_are_refused(database: Database, step: usize) {
    let (gateway, owner) = site(database).await;
    make_org(&owner, "Early").await;
    super::export(&owner, "p").await;
    make_org(&owner, "Late").await;
    let dir = folder(&gateway, "p");
    let dump = fs::read_to_string(dir.join("db/dump.sql")).unwrap();
    let canary = gateway.data_dir().join("canary");
    let touch = format!("touch {}", canary.display());
    let body = json!({
        "output_dir": "p", "db_file": "db/bad.sql", "drop_existing": true, "backup_first": false,
    });
    let before = all_content(&url(&gateway)).await;
    let tried: Vec<_> = HOSTILE.iter().step_by(step).collect();
    for (n, hostile) in tried.iter().enumerate() {
        let (text, line) = own_with(&dump, hostile);
        fs::write(dir.join("db/bad.sql"), text.replace("touch canary", &touch)).unwrap();
        let said = fails(&owner, RESTORE, &body).await;
        let found = said.split("line ").nth(1).and_then(|it| it.split(':').next()?.parse::<usize>().ok());
        // An incomplete statement swallows what follows; one with data is refused at the data.
        assert!(found.is_some_and(|it| (line..=line + 1).contains(&it)), "{hostile:?} at {line}: {said}");
        assert!(!canary.exists() && !Path::new("canary").exists(), "{hostile:?}");
        if n % 10 == 9 || n + 1 == tried.len() {
            assert_eq!(all_content(&url(&gateway)).await, before, "{hostile:?}, or one of nine before");
        }
    }
    assert_eq!(scratch(&gateway), [""; 0]);
    println!("{database:?}: {} of {} dumps were refused", tried.len(), HOSTILE.len());
}

#[tokio::test]
async fn hostile_dumps_change_nothing_in_sqlite() {
    hostile_dumps_are_refused(Database::Sqlite, 1).await;
}

#[tokio::test]
async fn hostile_dumps_change_nothing_in_postgres() {
    if Database::all("deployment: hostile dumps into Postgres").contains(&Database::Postgres) {
        // The reader is the same; a scratch schema takes a second and more.
        hostile_dumps_are_refused(Database::Postgres, 3).await;
    }
}
