//! Inspects a database without changing it, for `gantry doctor`.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use sqlx::{ConnectOptions, Connection, postgres::PgConnectOptions, sqlite::SqliteConnectOptions};

use crate::{DatabaseKind, StoreError, StoreResult, migration_versions};

/// Longest time that [`inspect`] may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What [`inspect`] found behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspection {
    pub kind: DatabaseKind,
    /// Version of the schema; `None` if Gantry has made no tables there yet.
    pub version: Option<i64>,
    /// The version that this program would make of it.
    pub newest: i64,
    /// Whether the database user may create tables where Gantry's are or would be. `true` for SQLite, where file
    /// permissions decide.
    pub may_create: bool,
}

/// Connects to `sqlite://<path>` or `postgres://…` and reads the version of its schema. Makes and changes nothing.
///
/// # Errors
/// Those of [`crate::Store::open`], except that a schema of any version is accepted.
pub async fn inspect(url: &str) -> StoreResult<Inspection> {
    let newest = migration_versions().map(|(number, _)| number).max().unwrap_or(0);
    let (kind, version, may_create) =
        tokio::time::timeout(LIMIT, version(url)).await.map_err(|_| StoreError::silent_server())??;
    Ok(Inspection { kind, version, newest, may_create })
}

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseAddress {
    /// A SQLite file.
    File(PathBuf),
    /// The folder of a Unix socket.
    Socket(PathBuf),
    /// Host and port.
    Server(String, u16),
}

/// Returns where the database at `sqlite://<path>` or `postgres://…` is, without connecting to it. Parts that the address
/// leaves out come from the environment (`PGHOST`), as for a connection.
///
/// # Errors
/// [`StoreError::Address`]: it is malformed.
pub fn database_address(url: &str) -> StoreResult<DatabaseAddress> {
    if let Some(path) = url.strip_prefix("sqlite://") {
        return Ok(DatabaseAddress::File(path.into()));
    }
    let options = postgres(url)?;
    let host = options.get_host();
    Ok(match options.get_socket() {
        Some(path) => DatabaseAddress::Socket(path.clone()),
        None if host.starts_with('/') => DatabaseAddress::Socket(host.into()),
        None => DatabaseAddress::Server(host.to_owned(), options.get_port()),
    })
}

fn postgres(url: &str) -> StoreResult<PgConnectOptions> {
    PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Address("it is not a valid `postgres://` address".to_owned()))
}

async fn version(url: &str) -> StoreResult<(DatabaseKind, Option<i64>, bool)> {
    const SQL: &str = "SELECT MAX(version) FROM _sqlx_migrations";
    // The result is NULL if `search_path` names no schema in which tables could be made.
    const MAY_CREATE: &str = "SELECT COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE)";
    if let Some(path) = url.strip_prefix("sqlite://") {
        // If this user may not enter a folder on the path, that is an error: the file may still exist.
        if !Path::new(path).try_exists().map_err(sqlx::Error::Io)? {
            return Ok((DatabaseKind::Sqlite, None, true));
        }
        let options = SqliteConnectOptions::new().filename(path).pragma("query_only", "ON");
        let mut conn = options.connect().await?;
        let found = sqlx::query_scalar(SQL).fetch_one(&mut conn).await;
        conn.close().await?;
        return Ok((DatabaseKind::Sqlite, known(found)?, true));
    }
    let options = postgres(url)?;
    let mut conn = options.application_name("gantry").connect().await?;
    let may_create = sqlx::query_scalar(MAY_CREATE).fetch_one(&mut conn).await?;
    let found = sqlx::query_scalar(SQL).fetch_one(&mut conn).await;
    conn.close().await?;
    Ok((DatabaseKind::Postgres, known(found)?, may_create))
}

/// Treats an error that the database itself answers with (no table of that name) as "nothing was made in it yet".
fn known(found: Result<Option<i64>, sqlx::Error>) -> StoreResult<Option<i64>> {
    match found {
        Ok(version) => Ok(version),
        Err(error) => match StoreError::from(error) {
            error if error.is_unavailable() => Err(error),
            StoreError::Database(sqlx::Error::Database(source)) if !is_damaged(source.as_ref()) => Ok(None),
            error => Err(error),
        },
    }
}

/// Returns whether it is CORRUPT or NOTADB of `SQLite`.
fn is_damaged(error: &dyn sqlx::error::DatabaseError) -> bool {
    matches!(error.code().and_then(|it| it.parse::<i32>().ok()).map(|it| it & 0xff), Some(11 | 26))
        && error.code().is_some_and(|it| it.len() < 5)
}
