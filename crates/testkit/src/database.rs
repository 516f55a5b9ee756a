//! The database of a gateway under test, before the gateway's first start.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gantry_domain::{
    Role,
    audit::{Action, Actor, AuditEntry, Origin},
};
use gantry_store::{NewUser, Store};
use serde_json::json;
use sqlx::Connection;
use tempfile::TempDir;

use crate::options::OWNER;

/// The hash of the owner's password with the least work that argon2 allows. With the work of real passwords, hashing and
/// checking them would take more than half of the CPU time of the tests.
const OWNER_HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$Z2FudHJ5LXRlc3RraXQtcw$HH/TnZAXy0VZ8yW5BEx8Lo1oMQ+8vtMzZoiIcu4dwWM";

/// Makes the SQLite file `file` with the owner, as a copy of one that the first test of this program makes.
pub(crate) async fn sqlite_with_owner(file: &Path) {
    let template = template();
    if !is_current(&template) {
        make(&template).await;
    }
    fs::copy(template, file).unwrap();
}

/// Brings the database at this address to the latest schema, and makes the owner.
pub(crate) async fn with_owner(url: &str) {
    let store = Store::open(url).await.unwrap();
    insert_owner(&store).await;
    store.close().await;
}

/// Brings the database at this address to the latest schema, and makes `first` the next id of a model.
pub(crate) async fn begin_ids_at(first: i64, url: &str) {
    Store::open(url).await.unwrap().close().await;
    if url.starts_with("postgres") {
        let sql = "SELECT setval(pg_get_serial_sequence('models', 'id'), $1, false)";
        let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::query(sql).bind(first).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    } else {
        let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('models', $1)";
        let mut connection = sqlx::SqliteConnection::connect(url).await.unwrap();
        sqlx::query(sql).bind(first - 1).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

/// The template lies beside the program of the tests, so that it goes with it.
fn template() -> PathBuf {
    std::env::current_exe().unwrap().with_extension("template.db")
}

/// Returns whether the template was made by this build of the tests, so that it has the latest schema.
fn is_current(template: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    changed(template) > changed(&std::env::current_exe().unwrap())
}

/// Makes the template. Several tests may do so at once: the last one stays.
async fn make(template: &Path) {
    let dir = TempDir::new_in(template.parent().unwrap()).unwrap();
    let file = dir.path().join("gantry.db");
    with_owner(&format!("sqlite://{}", file.display())).await;
    fs::rename(file, template).unwrap();
}

/// Makes the owner as `ADMIN_BOOTSTRAP_USERNAME` does.
async fn insert_owner(store: &Store) {
    let now = crate::now();
    let mut tx = store.write().await.unwrap();
    let org = tx.insert_org("Default", now).await.unwrap();
    let user = NewUser {
        org_id: org.id,
        username: OWNER.0.to_owned(),
        password_hash: OWNER_HASH.to_owned(),
        role: Role::Owner,
        enabled: true,
    };
    let user = tx.insert_user(&user, now).await.unwrap();
    let made =
        json!({ "username": user.username, "role": user.role, "org_id": org.id, "org_name": org.name });
    let entry = AuditEntry::new(Actor::Settings, Origin::default(), Action::OwnerBootstrap, user.id);
    tx.audit(&entry.created(made), now).await.unwrap();
    tx.commit().await.unwrap();
}
