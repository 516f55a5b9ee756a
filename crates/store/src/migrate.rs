//! Schema versions. The SQL texts of both dialects are compiled in. Nothing is ever dropped to make a schema fit.

use std::borrow::Cow;

use sqlx::{
    SqlSafeStr,
    migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator},
};

use crate::{DatabaseKind, StoreError, StoreResult};

struct Version {
    number: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! versions {
    ($($number:literal => $file:literal),+ $(,)?) => {
        &[$(Version {
            number: $number,
            name: $file,
            sqlite: include_str!(concat!("../migrations/sqlite/", $file, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $file, ".sql")),
        }),+]
    };
}

const VERSIONS: &[Version] = versions! {
    1 => "0001_initial",
    2 => "0002_usage",
    3 => "0003_limits",
    4 => "0004_chat",
    5 => "0005_lifecycle",
    6 => "0006_audit",
    7 => "0007_supervisor",
    8 => "0008_restarts",
    9 => "0009_registry",
    10 => "0010_people",
    11 => "0011_counted_rows",
    12 => "0012_jobs",
    13 => "0013_packages",
    14 => "0014_wishes",
    15 => "0015_chat_labels",
    16 => "0016_password_links",
    17 => "0017_deleted_names",
};

/// Returns number and file name (without `.sql`) of every schema version, oldest first. They are the same for both
/// databases.
pub fn versions() -> impl Iterator<Item = (i64, &'static str)> {
    VERSIONS.iter().map(|it| (it.number, it.name))
}

/// Returns number and text of every schema version in Postgres, oldest first.
pub(crate) fn postgres_texts() -> impl Iterator<Item = (i64, &'static str)> {
    VERSIONS.iter().map(|it| (it.number, it.postgres))
}

/// Returns number and checksum of every schema version, oldest first, as `_sqlx_migrations` has them.
pub(crate) fn checksums(kind: DatabaseKind) -> Vec<(i64, Vec<u8>)> {
    migrator(kind).iter().map(|it| (it.version, it.checksum.to_vec())).collect()
}

/// Brings the schema up to date. On Postgres it takes an advisory lock, which belongs to the connection and stays held
/// if this fails; on SQLite the caller holds the write lock.
pub(crate) async fn apply<C: Migrate>(kind: DatabaseKind, conn: &mut C) -> StoreResult<()> {
    // `run` can't be used: its future can't move between threads ("implementation of `Acquire` is not general enough").
    // For that, sqlx has this undocumented workaround (sqlx-core/src/migrate/migrator.rs @ 0.9.0).
    Ok(migrator(kind).run_direct(None, conn, false).await?)
}

/// Brings the schema to `version`, in a database that nothing else uses: no lock is taken.
pub(crate) async fn apply_until<C: Migrate>(
    kind: DatabaseKind,
    conn: &mut C,
    version: i64,
) -> StoreResult<()> {
    let mut migrator = migrator(kind);
    migrator.set_locking(false);
    Ok(migrator.run_direct(Some(version), conn, false).await?)
}

fn migrator(kind: DatabaseKind) -> Migrator {
    let migration = |it: &Version| {
        let sql = match kind {
            DatabaseKind::Sqlite => it.sqlite,
            DatabaseKind::Postgres => it.postgres,
        };
        let name = Cow::Borrowed(it.name);
        Migration::new(it.number, name, MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(VERSIONS.iter().map(migration).collect())
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) => Self::Schema(format!(
                "it is at version {version}, which this program does not know: it was written by a newer one, use that"
            )),
            MigrateError::VersionMismatch(version) => Self::Schema(format!(
                "its version {version} was made by another text than this program has: restore a backup, or use the \
                 program that made it"
            )),
            MigrateError::Dirty(version) => {
                Self::Schema(format!("its version {version} was applied only in part: restore a backup"))
            }
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            other => Self::Schema(other.to_string()),
        }
    }
}
