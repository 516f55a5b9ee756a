//! The swap on SQLite: the scratch file is attached, and its rows are copied within one transaction of the writer.

use std::path::Path;

use sqlx::{AssertSqlSafe, SqliteConnection, SqlitePool};

use crate::{
    StoreError, StoreResult,
    dump::schema::{Schema, Table},
    meta::note_restore,
    migrate,
    restore::record::SwapRecord,
};

/// Rows of `meta` that stay the live database's where it has them.
pub(super) const KEPT_META: &str = "key IN ('instance_id', 'home', 'models_base_dir') OR key LIKE 'secret/%'";

pub(super) async fn swap(
    writer: &SqlitePool,
    scratch: &Path,
    drop_existing: bool,
    record: Option<&SwapRecord<'_>>,
) -> StoreResult<()> {
    const ATTACH: &str = "ATTACH $1 AS restored";
    let mut conn = writer.acquire().await?;
    // The connection is not given back, so that none of what follows is left on it, whatever happens.
    conn.close_on_drop();
    let path = scratch.to_str();
    let path = path.ok_or_else(|| StoreError::Address(format!("{} is not UTF-8 text", scratch.display())))?;
    sqlx::query("PRAGMA foreign_keys = OFF").execute(&mut *conn).await?;
    sqlx::query(ATTACH).bind(path).execute(&mut *conn).await?;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *conn).await?;
    replace(&mut conn, drop_existing).await?;
    note_restore(&mut (&mut *conn).into()).await?;
    if let Some(record) = record {
        record.write((&mut *conn).into()).await?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut *conn).await?;
    // The next writer has to wait for the end of this connection. What was committed stays if the end fails.
    let _ = conn.close().await;
    Ok(())
}

async fn replace(conn: &mut SqliteConnection, drop_existing: bool) -> StoreResult<()> {
    const USED: &str = "SELECT EXISTS (SELECT 1 FROM main.users)";
    if !drop_existing && sqlx::query_scalar::<_, bool>(USED).fetch_one(&mut *conn).await? {
        return Err(StoreError::Exists);
    }
    let newest = migrate::versions().map(|it| it.0).max().unwrap_or(0);
    let schema = Schema::at(newest).map_err(|it| StoreError::Schema(it.to_string()))?;
    for table in &schema.tables {
        let copied = match table.name.as_str() {
            // These rows are the live gateway's.
            "supervisor" => continue,
            "changes" => "UPDATE main.changes SET n = n + 1".to_owned(),
            "meta" => format!(
                "DELETE FROM main.meta WHERE NOT ({KEPT_META}); \
                 INSERT INTO main.meta (key, value) SELECT key, value FROM restored.meta WHERE TRUE \
                 ON CONFLICT (key) DO NOTHING"
            ),
            "jobs" => format!(
                "DELETE FROM main.jobs WHERE state <> 'running'; \
                 INSERT INTO main.jobs ({0}) SELECT {0} FROM restored.jobs WHERE TRUE ON CONFLICT (id) DO NOTHING",
                table.column_list()
            ),
            name => copy(conn, table, name).await?,
        };
        sqlx::raw_sql(AssertSqlSafe(copied)).execute(&mut *conn).await?;
        check_count(conn, table).await?;
    }
    count_on(conn).await?;
    Ok(())
}

/// Returns the statements that replace the rows of a table. If both tables were made by the same text, SQLite copies
/// whole records, and those of indexes too (<https://sqlite.org/lang_insert.html>, "transfer optimization").
async fn copy(conn: &mut SqliteConnection, table: &Table, name: &str) -> StoreResult<String> {
    const SAME: &str = "SELECT (SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = $1) \
                        IS (SELECT sql FROM restored.sqlite_master WHERE type = 'table' AND name = $1)";
    let same: bool = sqlx::query_scalar(SAME).bind(name).fetch_one(conn).await?;
    let insert = if same {
        format!("INSERT INTO main.{name} SELECT * FROM restored.{name}")
    } else {
        format!("INSERT INTO main.{name} ({0}) SELECT {0} FROM restored.{name}", table.column_list())
    };
    Ok(format!("DELETE FROM main.{name}; {insert}"))
}

/// Checks that no row of the scratch database is missing in the live one. Where rows of the live gateway stay, the numbers
/// can't be compared.
async fn check_count(conn: &mut SqliteConnection, table: &Table) -> StoreResult<()> {
    let Table { name, .. } = table;
    let sql = format!("SELECT (SELECT COUNT(*) FROM main.{name}), (SELECT COUNT(*) FROM restored.{name})");
    let (live, restored): (i64, i64) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(conn).await?;
    let own = matches!(name.as_str(), "meta" | "jobs" | "changes");
    if live == restored || own {
        return Ok(());
    }
    Err(StoreError::Unproven(format!("`{name}` has {live} rows after the swap, and not {restored}")))
}

/// Carries on counting from the higher of both numbers.
async fn count_on(conn: &mut SqliteConnection) -> StoreResult<()> {
    const RAISE: &str = "UPDATE main.sqlite_sequence SET seq = MAX(seq, COALESCE((SELECT r.seq FROM \
                         restored.sqlite_sequence r WHERE r.name = sqlite_sequence.name), 0))";
    const ADD: &str = "INSERT INTO main.sqlite_sequence (name, seq) SELECT name, seq FROM restored.sqlite_sequence \
                       WHERE name NOT IN (SELECT name FROM main.sqlite_sequence)";
    sqlx::query(RAISE).execute(&mut *conn).await?;
    sqlx::query(ADD).execute(conn).await?;
    Ok(())
}
