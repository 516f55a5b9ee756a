//! Creates a fresh database for each test, and what every test needs in it.

use std::{fs::OpenOptions, io::Write as _, path::Path, time::Duration};

use gantry_domain::{
    OrgId, Role, Timestamp,
    identity::{Org, User},
    key::KeySettings,
};
use gantry_store::{DatabaseKind, NewKey, NewUser, Store};
use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection, migrate::Migrator,
    sqlite::SqliteConnectOptions,
};
use uuid::Uuid;

/// Longest wait for something that takes milliseconds on an idle machine, as in `gantry_testkit`.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
pub(crate) const NOW: Timestamp = Timestamp(1_795_219_804_123);

/// Returns the time `ms` milliseconds after `NOW`.
pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp(NOW.0 + ms)
}

/// A database that [`Database::remove`] deletes.
pub(crate) struct Database {
    pub(crate) store: Store,
    pub(crate) url: String,
    dir: Option<tempfile::TempDir>,
    schema: Option<(String, String)>,
}

/// Turns `async fn name(db: &Database)` into one test for each database.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident: &$database:ident) $body:block)+) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn run($db: &$database) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let db = $database::sqlite().await;
                run(&db).await;
                db.remove().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let Some(db) = $database::postgres().await else { return };
                run(&db).await;
                db.remove().await;
            }
        }
    )+};
}
pub(crate) use on_both;

#[expect(clippy::disallowed_methods, reason = "environment variables name the services that tests use")]
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}

/// Returns the URL of the server to test on; `None` notes that its tests are skipped.
pub(crate) fn postgres_url() -> Option<String> {
    let url = env("TEST_POSTGRES_URL");
    if url.is_none() {
        let reason = "TEST_POSTGRES_URL is not set";
        assert!(env("REQUIRE_ALL").as_deref() != Some("1"), "store::postgres must not be skipped: {reason}");
        eprintln!("SKIP store::postgres: {reason}");
        if let Some(file) = env("GANTRY_SKIP_FILE") {
            let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
            // The line is written at once, so that lines of parallel tests do not mix.
            file.write_all(format!("store::postgres\tSKIP\t{reason}\n").as_bytes()).unwrap();
        }
    }
    url
}

/// Returns the migrations in a folder up to `version`.
async fn until(version: i64, folder: &Path) -> Migrator {
    let all = Migrator::new(folder).await.unwrap();
    Migrator::with_migrations(all.iter().filter(|it| it.version <= version).cloned().collect())
}

impl Database {
    pub(crate) async fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("gantry.db").display());
        let store = Store::open(&url).await.unwrap();
        Self { store, url, dir: Some(dir), schema: None }
    }

    pub(crate) async fn postgres() -> Option<Self> {
        let server = postgres_url()?;
        let schema = format!("t_{}", Uuid::now_v7().simple());
        let mut conn = PgConnection::connect(&server).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        let sign = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{sign}options=-csearch_path%3D{schema}");
        let store = Store::open(&url).await.unwrap();
        Some(Self { store, url, dir: None, schema: Some((server, schema)) })
    }

    pub(crate) async fn remove(self) {
        self.store.close().await;
        if let Some((server, schema)) = self.schema {
            let mut conn = PgConnection::connect(&server).await.unwrap();
            let drop = AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"));
            sqlx::raw_sql(drop).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }

    /// Runs a statement directly on the database, without the store.
    pub(crate) async fn tamper(&self, sql: &'static str) -> Result<u64, sqlx::Error> {
        match self.store.kind() {
            DatabaseKind::Sqlite => {
                let options = SqliteConnectOptions::new().filename(self.dir().join("gantry.db"));
                let mut conn = SqliteConnection::connect_with(&options).await?;
                Ok(sqlx::query(sql).execute(&mut conn).await?.rows_affected())
            }
            DatabaseKind::Postgres => {
                let mut conn = PgConnection::connect(&self.url).await?;
                Ok(sqlx::query(sql).execute(&mut conn).await?.rows_affected())
            }
        }
    }

    /// Runs a statement whose text is made at run time directly on Postgres.
    pub(crate) async fn tamper_text(&self, sql: &str) {
        let mut conn = PgConnection::connect(&self.url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
    }

    /// Leaves an empty database with the schema of an older version, which [`Database::tamper`] can fill. The store is
    /// closed.
    pub(crate) async fn go_back_to(&self, version: i64) {
        self.store.close().await;
        let of = |kind: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(kind);
        match self.store.kind() {
            DatabaseKind::Sqlite => {
                let file = self.dir().join("gantry.db");
                std::fs::remove_file(&file).unwrap();
                let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
                let mut conn = SqliteConnection::connect_with(&options).await.unwrap();
                until(version, &of("sqlite")).await.run_direct(None, &mut conn, false).await.unwrap();
            }
            DatabaseKind::Postgres => {
                let mut conn = PgConnection::connect(&self.url).await.unwrap();
                let (_, schema) = self.schema.as_ref().unwrap();
                let empty = AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}"));
                sqlx::raw_sql(empty).execute(&mut conn).await.unwrap();
                until(version, &of("postgres")).await.run_direct(None, &mut conn, false).await.unwrap();
            }
        }
    }

    /// Returns `table.column` of our own tables, sorted.
    pub(crate) async fn columns(&self) -> Vec<String> {
        const SQLITE: &str = "SELECT m.name || '.' || p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p \
                              WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name NOT LIKE '%sqlx%'";
        const POSTGRES: &str = "SELECT table_name::text || '.' || column_name::text \
                                FROM information_schema.columns \
                                WHERE table_schema = current_schema() AND table_name NOT LIKE '%sqlx%'";
        self.texts(match self.store.kind() {
            DatabaseKind::Sqlite => SQLITE,
            DatabaseKind::Postgres => POSTGRES,
        })
        .await
    }

    /// Returns the names of our own indexes, sorted, without those that the databases make for primary keys.
    pub(crate) async fn indexes(&self) -> Vec<String> {
        const SQLITE: &str = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL";
        const POSTGRES: &str = "SELECT indexname::text FROM pg_indexes \
                                WHERE schemaname = current_schema() AND indexname NOT LIKE '%_pkey'";
        self.texts(match self.store.kind() {
            DatabaseKind::Sqlite => SQLITE,
            DatabaseKind::Postgres => POSTGRES,
        })
        .await
    }

    /// Returns the first column of a query's result, sorted.
    pub(crate) async fn texts(&self, sql: &'static str) -> Vec<String> {
        let mut found: Vec<String> = match self.store.kind() {
            DatabaseKind::Sqlite => {
                let options = SqliteConnectOptions::new().filename(self.dir().join("gantry.db"));
                let mut conn = SqliteConnection::connect_with(&options).await.unwrap();
                let rows = sqlx::query(sql).fetch_all(&mut conn).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
            DatabaseKind::Postgres => {
                let mut conn = PgConnection::connect(&self.url).await.unwrap();
                let rows = sqlx::query(sql).fetch_all(&mut conn).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
        };
        found.sort();
        found
    }

    pub(crate) async fn org(&self, name: &str) -> Org {
        let mut tx = self.store.write().await.unwrap();
        let org = tx.insert_org(name, NOW).await.unwrap();
        tx.commit().await.unwrap();
        org
    }

    pub(crate) async fn user(&self, org: OrgId, username: &str, role: Role) -> User {
        let mut tx = self.store.write().await.unwrap();
        let user = tx.insert_user(&new_user(org, username, role), NOW).await.unwrap();
        tx.commit().await.unwrap();
        user
    }
}

pub(crate) fn new_user(org_id: OrgId, username: &str, role: Role) -> NewUser {
    NewUser {
        org_id,
        username: username.to_owned(),
        password_hash: "$argon2id$…".to_owned(),
        role,
        enabled: true,
    }
}

/// Returns a key of the organisation; `number` makes its token unique.
pub(crate) fn new_key(org_id: OrgId, number: u8, name: &str) -> NewKey {
    NewKey {
        settings: KeySettings { name: name.to_owned(), ..KeySettings::default() },
        prefix: format!("gty_Ab{number:06}"),
        token_hash: [number; 32],
        org_id,
        user_id: None,
    }
}
