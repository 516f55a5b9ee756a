//! A scratch database in a schema of its own, beside the live one. It is made in one transaction: if the connection is
//! dropped before the end, the server forgets all of it.

use std::time::{Duration, Instant};

use sqlx::{
    AssertSqlSafe, ConnectOptions, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgTransactionManager},
};
use sqlx_core::transaction::TransactionManager;

use crate::{DatabaseKind, StoreError, StoreResult, dump::schema::Table, migrate, store::POSTGRES_LEFT};

/// The advisory lock of all who restore into a schema; the number is arbitrary, see [`crate::tx::AdvisoryLock`].
pub(super) const LOCK: i32 = 1_196_314_709;
/// Longest wait for it, and the pause between two tries.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(3);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Begins the name of each scratch schema.
const PREFIX: &str = "gantry_restore_";
/// Longest name that a caller may give; names in Postgres have at most 63 bytes.
const NAME: usize = 32;
/// Nothing of a restore is cut off for taking long, and a lock is waited for as long as it says itself.
const SESSION: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
                       SET client_min_messages = error; SET lock_timeout = '30s'";

/// The names of both schemas.
#[derive(Debug, Clone)]
pub(super) struct Schemas {
    pub(super) live: String,
    pub(super) scratch: String,
}

impl Schemas {
    /// Returns how a table is named in a statement.
    pub(super) fn live(&self, table: &str) -> String {
        format!("{}.{table}", quoted(&self.live))
    }

    pub(super) fn scratch(&self, table: &str) -> String {
        format!("{}.{table}", quoted(&self.scratch))
    }
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Connects, takes the lock (for which it waits up to `wait`), and removes what a killed process left.
///
/// # Errors
/// [`StoreError::RestoreRuns`] if the lock is taken.
pub(super) async fn connect(
    pool: &PgPool,
    name: &str,
    wait: Duration,
) -> StoreResult<(PgConnection, Schemas)> {
    const LIVE: &str = "SELECT current_schema()::text, LEFT(MD5(current_schema()), 8)";
    if name.is_empty()
        || name.len() > NAME
        || !name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
    {
        return Err(StoreError::Address(format!("`{name}` is no name for a scratch schema")));
    }
    let options = PgConnectOptions::clone(&pool.connect_options());
    let mut conn = options.application_name("gantry restore").connect().await?;
    sqlx::raw_sql(SESSION).execute(&mut conn).await?;
    // As for every other connection, see `POSTGRES_LEFT`: some platforms reject this setting.
    let _ = sqlx::raw_sql(POSTGRES_LEFT).execute(&mut conn).await;
    let (live, mark): (String, String) = sqlx::query_as(LIVE).fetch_one(&mut conn).await?;
    take_lock(&mut conn, wait).await?;
    // The mark keeps installations apart that share a database.
    let own = format!("{PREFIX}{mark}_");
    remove_left(&mut conn, &own).await?;
    Ok((conn, Schemas { live, scratch: format!("{own}{name}") }))
}

/// Takes the lock of all who restore. It may be held for a moment by a restore that was dropped.
async fn take_lock(conn: &mut PgConnection, wait: Duration) -> StoreResult<()> {
    const TAKE: &str = "SELECT pg_try_advisory_lock($1, hashtext(current_schema()))";
    let until = Instant::now() + wait;
    while !sqlx::query_scalar::<_, bool>(TAKE).bind(LOCK).fetch_one(&mut *conn).await? {
        if Instant::now() >= until {
            return Err(StoreError::RestoreRuns);
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    Ok(())
}

/// Removes the scratch schemas of this installation. The connection holds the lock, so none of them is in use.
async fn remove_left(conn: &mut PgConnection, own: &str) -> StoreResult<()> {
    const LEFT: &str = "SELECT nspname::text FROM pg_namespace WHERE STARTS_WITH(nspname::text, $1)";
    let left: Vec<String> = sqlx::query_scalar(LEFT).bind(own).fetch_all(&mut *conn).await?;
    for schema in left {
        drop_schema(conn, &schema).await?;
        tracing::warn!(schema, "removed what an interrupted restore left in the database");
    }
    Ok(())
}

/// Removes what an interrupted restore left, unless a restore is under way.
pub(super) async fn remove_leftovers(pool: &PgPool) -> StoreResult<()> {
    match connect(pool, "none", Duration::ZERO).await {
        Ok(_) | Err(StoreError::RestoreRuns) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) async fn drop_schema(conn: &mut PgConnection, schema: &str) -> sqlx::Result<()> {
    let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(schema));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
}

/// What is made again once the rows are there.
pub(super) struct Definitions(Vec<String>);

/// Begins the transaction, and makes the schema with the tables of a version, without rows, indexes and references.
pub(super) async fn prepare(
    conn: &mut PgConnection,
    schemas: &Schemas,
    version: i64,
    emptied: &[&Table],
) -> StoreResult<Definitions> {
    const REFERENCES: &str = "SELECT c.relname::text, k.conname::text, pg_get_constraintdef(k.oid) \
                              FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
                              WHERE k.contype = 'f' AND k.connamespace = CAST(current_schema() AS regnamespace)";
    const INDEXES: &str = "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) \
                           FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                           WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND NOT i.indisprimary";
    // sqlx has to know of the transaction: a migration begins one of its own within it.
    PgTransactionManager::begin(conn, None).await?;
    let name = quoted(&schemas.scratch);
    let sql = format!("CREATE SCHEMA {name}; SET LOCAL search_path = {name}");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await?;
    migrate::apply_until(DatabaseKind::Postgres, conn, version).await?;
    let references: Vec<(String, String, String)> = sqlx::query_as(REFERENCES).fetch_all(&mut *conn).await?;
    let indexes: Vec<(String, String)> = sqlx::query_as(INDEXES).fetch_all(&mut *conn).await?;
    let mut definitions = Vec::new();
    let mut changes: Vec<String> = emptied.iter().map(|it| format!("DELETE FROM {}", it.name)).collect();
    // A reference needs the index of the table that it refers to.
    for (index, definition) in &indexes {
        definitions.push(definition.clone());
        changes.push(format!("DROP INDEX {index}"));
    }
    for (table, constraint, definition) in &references {
        definitions.push(format!("ALTER TABLE {table} ADD CONSTRAINT {constraint} {definition}"));
        changes.insert(0, format!("ALTER TABLE {table} DROP CONSTRAINT {constraint}"));
    }
    sqlx::raw_sql(AssertSqlSafe(changes.join("; "))).execute(conn).await?;
    Ok(Definitions(definitions))
}

/// Makes indexes and references, and notes the number last given in a table.
pub(super) async fn finish(
    conn: &mut PgConnection,
    definitions: &Definitions,
    sequences: impl Iterator<Item = (&str, i64)>,
) -> sqlx::Result<()> {
    const NOTE: &str = "SELECT setval(CAST(pg_get_serial_sequence($1, 'id') AS regclass), $2)";
    for definition in &definitions.0 {
        sqlx::raw_sql(AssertSqlSafe(definition.clone())).execute(&mut *conn).await?;
    }
    for (table, last) in sequences {
        sqlx::query(NOTE).bind(table).bind(last).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Gathers what the planner knows of the tables, which it would otherwise have to guess after the swap.
pub(super) async fn analyze(conn: &mut PgConnection, tables: &[&Table]) -> sqlx::Result<()> {
    let names: Vec<&str> = tables.iter().map(|it| it.name.as_str()).collect();
    let sql = format!("ANALYZE {}", names.join(", "));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
}
