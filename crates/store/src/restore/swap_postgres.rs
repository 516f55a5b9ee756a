//! The swap on Postgres: the live tables are dropped, and those of the scratch schema move in their place.
//!
//! The rows of the scratch schema are committed before that. A transaction whose snapshot is older would find the new
//! tables empty; there is none, because those that read lock a table before they take their snapshot. For the same
//! reason the tables in which rows of the live gateways stay are not replaced, but changed row by row.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, postgres::PgTransactionManager};
use sqlx_core::transaction::TransactionManager;

use crate::{
    StoreError, StoreResult,
    dump::schema::{Schema, Table},
    meta::note_restore,
    migrate,
    restore::{
        postgres::{LOCK, Schemas, drop_schema},
        record::SwapRecord,
        swap_sqlite::KEPT_META,
    },
};

/// Longest time that the swap tries to lock all tables.
const PATIENCE: Duration = Duration::from_mins(5);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// The wait for each lock is much shorter than the time after which Postgres looks for deadlocks (1 s), so that it is
/// always the swap that gives way, and nobody waits long for it.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '100ms'";
/// By how many tables the order of the locks moves on with each try. Others read the tables in orders of their own:
/// they never wait for each other, but for the swap. If it begins with the table that they read first, they queue there
/// and hold nothing that it still needs.
const STEP: usize = 5;

/// What is known after a swap without an error.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    /// The connection broke while the server was asked to commit. The scratch schema is gone if it did.
    Unanswered(StoreError),
}

/// Swaps, or removes the scratch schema if that fails.
pub(super) async fn swap(
    mut conn: PgConnection,
    schemas: &Schemas,
    drop_existing: bool,
    record: Option<&SwapRecord<'_>>,
) -> StoreResult<Outcome> {
    PgTransactionManager::commit(&mut conn).await?;
    let done = try_swap(&mut conn, schemas, drop_existing, record).await;
    if done.is_err() {
        // The error that came first is returned; what is left here goes with the next restore.
        let _ = drop_schema(&mut conn, &schemas.scratch).await;
    }
    // What was committed stays, even if the server does not hear of the end.
    let _ = conn.close().await;
    done
}

/// Returns whether the swap from this scratch schema was committed: the schema went with it.
pub(super) async fn is_committed(pool: &PgPool, schemas: &Schemas) -> StoreResult<bool> {
    // The server may still be at it. Its session holds this lock to its end.
    const WAIT: &str = "SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))";
    const SQL: &str = "SELECT NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    sqlx::query(WAIT).bind(LOCK).execute(pool).await?;
    Ok(sqlx::query_scalar(SQL).bind(&schemas.scratch).fetch_one(pool).await?)
}

async fn try_swap(
    conn: &mut PgConnection,
    schemas: &Schemas,
    drop_existing: bool,
    record: Option<&SwapRecord<'_>>,
) -> StoreResult<Outcome> {
    let newest = migrate::versions().map(|it| it.0).max().unwrap_or(0);
    let schema = Schema::at(newest).map_err(|it| StoreError::Schema(it.to_string()))?;
    let until = Instant::now() + PATIENCE;
    let mut order: Vec<String> = schema.tables.iter().map(|it| schemas.live(&it.name)).collect();
    loop {
        sqlx::raw_sql("BEGIN").execute(&mut *conn).await?;
        let lock = format!("{LOCK_TIMEOUT}; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", order.join(", "));
        let steps = STEP % order.len().max(1);
        order.rotate_left(steps);
        let replaced = match sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *conn).await {
            Ok(_) => replace(conn, schemas, &schema, drop_existing, record).await,
            Err(error) => Err(error.into()),
        };
        let Err(error) = replaced else { return commit(conn).await };
        sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await?;
        if !is_in_use(&error) || Instant::now() >= until {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn commit(conn: &mut PgConnection) -> StoreResult<Outcome> {
    match sqlx::raw_sql("COMMIT").execute(conn).await.map_err(StoreError::from) {
        Ok(_) => Ok(Outcome::Done),
        Err(error) if error.is_unavailable() => Ok(Outcome::Unanswered(error)),
        Err(error) => Err(error),
    }
}

/// Returns whether another transaction was in the way.
fn is_in_use(error: &StoreError) -> bool {
    let StoreError::Database(sqlx::Error::Database(it)) = error else { return false };
    matches!(it.code().as_deref(), Some("55P03" | "40P01"))
}

/// How the rows of a table are replaced.
fn is_moved(table: &Table) -> bool {
    !matches!(table.name.as_str(), "meta" | "jobs" | "changes" | "supervisor")
}

async fn replace(
    conn: &mut PgConnection,
    schemas: &Schemas,
    schema: &Schema,
    drop_existing: bool,
    record: Option<&SwapRecord<'_>>,
) -> StoreResult<()> {
    let used = format!("SELECT EXISTS (SELECT 1 FROM {})", schemas.live("users"));
    if !drop_existing && sqlx::query_scalar::<_, bool>(AssertSqlSafe(used)).fetch_one(&mut *conn).await? {
        return Err(StoreError::Exists);
    }
    count_on(conn, schemas, schema).await?;
    let moved: Vec<&Table> = schema.tables.iter().filter(|it| is_moved(it)).collect();
    let old: Vec<String> = moved.iter().map(|it| schemas.live(&it.name)).collect();
    let mut sql = vec![format!("DROP TABLE {}", old.join(", "))];
    let live = super::postgres::quoted(&schemas.live);
    sql.extend(moved.iter().map(|it| format!("ALTER TABLE {} SET SCHEMA {live}", schemas.scratch(&it.name))));
    sql.extend(row_by_row(schemas, schema));
    sqlx::raw_sql(AssertSqlSafe(sql.join("; "))).execute(&mut *conn).await?;
    drop_schema(conn, &schemas.scratch).await?;
    note_restore(&mut (&mut *conn).into()).await?;
    match record {
        Some(record) => record.write(conn.into()).await,
        None => Ok(()),
    }
}

/// The statements for the tables that stay.
fn row_by_row(schemas: &Schemas, schema: &Schema) -> Vec<String> {
    let columns =
        |name: &str| schema.index(name).map(|it| schema.tables[it].column_list()).unwrap_or_default();
    let mut sql = vec![
        format!("DELETE FROM {} WHERE NOT ({KEPT_META})", schemas.live("meta")),
        format!("DELETE FROM {} WHERE state <> 'running'", schemas.live("jobs")),
        format!("UPDATE {} SET n = n + 1", schemas.live("changes")),
    ];
    for (name, key) in [("meta", "key"), ("jobs", "id")] {
        let (live, scratch, columns) = (schemas.live(name), schemas.scratch(name), columns(name));
        sql.push(format!(
            "INSERT INTO {live} ({columns}) SELECT {columns} FROM {scratch} ON CONFLICT ({key}) DO NOTHING"
        ));
    }
    sql
}

/// Carries on counting from the higher of both numbers, in the sequence that stays.
async fn count_on(conn: &mut PgConnection, schemas: &Schemas, schema: &Schema) -> StoreResult<()> {
    const RAISE: &str = "SELECT setval(CAST(pg_get_serial_sequence($1, $3) AS regclass), last) \
                         FROM (SELECT GREATEST( \
                             pg_sequence_last_value(CAST(pg_get_serial_sequence($1, $3) AS regclass)), \
                             pg_sequence_last_value(CAST(pg_get_serial_sequence($2, $3) AS regclass))) AS last) AS higher \
                         WHERE last IS NOT NULL";
    for table in schema.tables.iter().filter(|it| it.counts) {
        let (live, scratch) = (schemas.live(&table.name), schemas.scratch(&table.name));
        let (stays, goes) = if is_moved(table) { (scratch, live) } else { (live, scratch) };
        let key = &table.columns[table.key].name;
        let query = sqlx::query(RAISE).bind(stays).bind(goes).bind(key);
        query.execute(&mut *conn).await?;
    }
    Ok(())
}
