//! A scratch database in a SQLite file. Nothing in it survives a crash until it is complete, which makes it fast.

use std::{fs, path::Path};

use sqlx::{
    Arguments, AssertSqlSafe, ConnectOptions, Connection, SqliteConnection,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    DatabaseKind, StoreError, StoreResult,
    dump::{
        row::{Row, Value},
        schema::Table,
    },
    migrate,
};

/// Page cache in KiB (a negative number means KiB in SQLite).
const CACHE: &str = "-16384";
/// Values that one statement may have (`SQLITE_MAX_VARIABLE_NUMBER`, <https://sqlite.org/limits.html>).
const VALUES: usize = 32_766;
/// Most rows in one statement.
const ROWS: usize = 250;
/// Bytes of values after which a statement is executed.
const BATCH: usize = 1 << 20;

/// Connects to an empty file.
pub(super) async fn connect(path: &Path) -> StoreResult<SqliteConnection> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Off)
        .synchronous(SqliteSynchronous::Off)
        .foreign_keys(false)
        .pragma("cache_size", CACHE)
        .pragma("locking_mode", "EXCLUSIVE");
    Ok(options.connect().await?)
}

/// Makes the tables of a version, without rows and indexes. Returns the statements that make the indexes.
pub(super) async fn prepare(
    conn: &mut SqliteConnection,
    version: i64,
    emptied: &[&Table],
) -> StoreResult<Vec<String>> {
    const INDEXES: &str = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL";
    migrate::apply_until(DatabaseKind::Sqlite, conn, version).await?;
    let indexes: Vec<(String, String)> = sqlx::query_as(INDEXES).fetch_all(&mut *conn).await?;
    sqlx::raw_sql("BEGIN").execute(&mut *conn).await?;
    for (name, _) in &indexes {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP INDEX {name}"))).execute(&mut *conn).await?;
    }
    for table in emptied {
        sqlx::raw_sql(AssertSqlSafe(format!("DELETE FROM {}", table.name))).execute(&mut *conn).await?;
    }
    Ok(indexes.into_iter().map(|it| it.1).collect())
}

/// Rows of one table that are inserted together.
pub(super) struct Batch {
    table: Table,
    values: SqliteArguments,
    rows: usize,
    bytes: usize,
}

impl Batch {
    pub(super) fn new(table: Table) -> Self {
        Self { table, values: SqliteArguments::default(), rows: 0, bytes: 0 }
    }

    /// Adds a row. Returns whether the batch is full.
    pub(super) fn add(&mut self, row: &Row) -> StoreResult<bool> {
        let columns = self.table.columns.len();
        for at in 0..columns {
            let added = match row.get(at) {
                Value::Null => self.values.add(None::<i64>),
                Value::Integer(it) => self.values.add(it),
                Value::Text(it) => {
                    self.bytes += it.len();
                    self.values.add(it)
                }
                Value::Bytes(it) => {
                    self.bytes += it.len();
                    self.values.add(it)
                }
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        self.rows += 1;
        Ok(self.rows >= ROWS.min(VALUES / columns) || self.bytes >= BATCH)
    }

    /// Inserts the rows.
    pub(super) async fn flush(&mut self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let columns = self.table.columns.len();
        let full = self.rows == ROWS.min(VALUES / columns);
        let one = format!("({})", vec!["?"; columns].join(","));
        let rows = vec![one.as_str(); self.rows].join(",");
        let sql = format!("INSERT INTO {} ({}) VALUES {rows}", self.table.name, self.table.column_list());
        let values = std::mem::take(&mut self.values);
        (self.rows, self.bytes) = (0, 0);
        // Only the statement for a full batch comes again.
        sqlx::query_with(AssertSqlSafe(sql), values).persistent(full).execute(conn).await.map(drop)
    }
}

/// Makes the indexes, and notes the number last given in a table.
pub(super) async fn finish(
    conn: &mut SqliteConnection,
    indexes: &[String],
    sequences: impl Iterator<Item = (&str, i64)>,
) -> sqlx::Result<()> {
    const FORGET: &str = "DELETE FROM sqlite_sequence WHERE name = $1";
    const NOTE: &str = "INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)";
    for index in indexes {
        sqlx::raw_sql(AssertSqlSafe(index.clone())).execute(&mut *conn).await?;
    }
    for (table, last) in sequences {
        sqlx::query(FORGET).bind(table).execute(&mut *conn).await?;
        sqlx::query(NOTE).bind(table).bind(last).execute(&mut *conn).await?;
    }
    sqlx::raw_sql("COMMIT").execute(conn).await.map(drop)
}

/// Has SQLite check the whole file and all references.
///
/// # Errors
/// [`StoreError::Unproven`] with the first fault.
pub(super) async fn check(conn: &mut SqliteConnection, whole: bool) -> StoreResult<()> {
    const REFERENCES: &str =
        "SELECT \"table\" || ' refers to a missing row of ' || parent FROM pragma_foreign_key_check LIMIT 1";
    const INTEGRITY: &str = "PRAGMA integrity_check(1)";
    let broken: Option<String> = sqlx::query_scalar(REFERENCES).fetch_optional(&mut *conn).await?;
    if let Some(broken) = broken {
        return Err(StoreError::Unproven(broken));
    }
    if whole {
        let said: String = sqlx::query_scalar(INTEGRITY).fetch_one(conn).await?;
        if said != "ok" {
            return Err(StoreError::Unproven(format!("SQLite found the new file damaged: {said}")));
        }
    }
    Ok(())
}

/// Closes the connection; once this returns, the file is complete and on the disk.
pub(super) async fn close(conn: SqliteConnection, path: &Path) -> StoreResult<()> {
    conn.close().await?;
    let synced = fs::File::open(path).and_then(|it| it.sync_all());
    synced.map_err(|error| StoreError::Address(format!("{}: {error}", path.display())))
}
