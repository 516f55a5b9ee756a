//! Reads the rows of a database for a dump or a proof. Names of tables and columns come from [`Schema`], which the
//! catalog of the database must agree with.

use std::{future::Future, path::Path, time::Duration};

use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{
    DatabaseKind, Store, StoreError, StoreResult,
    dump::{
        header::MIGRATIONS,
        json,
        lexer::ROW_LIMIT,
        row::Row,
        schema::{Kind, Schema, Table},
    },
    migrate,
    store::{BEGIN_READ, LOCK_READ, Pools},
    tx::next,
};

/// Longest wait for the next rows of Postgres, which may have to sort first, and for a lock of SQLite.
const PATIENCE: Duration = Duration::from_mins(10);
/// Longest wait for the answer to a statement that gives few rows, or none yet. A connection that died without a word must not
/// hold up a dump for ever.
const ANSWER: Duration = Duration::from_mins(1);
/// Rows that SQLite's thread may read ahead.
const ROWS_AHEAD: usize = 128;

/// A connection that reads one moment of a database.
pub(crate) enum Reading {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Reading {
    pub(crate) fn conn(&mut self) -> Conn<'_> {
        match self {
            Self::Sqlite(conn) => Conn::Sqlite(conn),
            Self::Postgres(conn) => Conn::Postgres(conn),
        }
    }

    /// Connects to the store's database for one long read, and begins it: all reads see the same moment.
    pub(crate) async fn to_read(store: &Store) -> StoreResult<Self> {
        match store.pools() {
            Pools::Sqlite { readers, .. } => {
                let options = SqliteConnectOptions::clone(&readers.connect_options());
                Self::sqlite_to_read(options).await
            }
            Pools::Postgres { pool, .. } => {
                // The sink may be slow, and a large table takes its time.
                const LONG: &str =
                    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
                let mut conn = answered(pool.connect_options().connect()).await?;
                answered(sqlx::raw_sql(BEGIN_READ).execute(&mut conn)).await?;
                answered(sqlx::raw_sql(LONG).execute(&mut conn)).await?;
                answered(sqlx::raw_sql(LOCK_READ).execute(&mut conn)).await?;
                Ok(Self::Postgres(conn))
            }
        }
    }

    /// Opens a SQLite file in the same way. Nothing in the file is trusted, and nothing is changed.
    pub(crate) async fn file_to_read(path: &Path) -> StoreResult<Self> {
        let options = SqliteConnectOptions::new().filename(path).read_only(true);
        Self::sqlite_to_read(options.pragma("trusted_schema", "OFF").pragma("cell_size_check", "ON")).await
    }

    async fn sqlite_to_read(options: SqliteConnectOptions) -> StoreResult<Self> {
        let options = options.busy_timeout(PATIENCE).pragma("query_only", "ON").row_buffer_size(ROWS_AHEAD);
        let mut conn = options.connect().await?;
        sqlx::raw_sql("BEGIN").execute(&mut conn).await?;
        Ok(Self::Sqlite(conn))
    }
}

/// A connection to either database.
pub(crate) enum Conn<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

impl Conn<'_> {
    pub(crate) fn kind(&self) -> DatabaseKind {
        match self {
            Self::Sqlite(_) => DatabaseKind::Sqlite,
            Self::Postgres(_) => DatabaseKind::Postgres,
        }
    }

    /// Returns the version and the tables of a database that this program or an older one made.
    ///
    /// # Errors
    /// [`StoreError::Schema`] for any other one.
    pub(crate) async fn schema(&mut self) -> StoreResult<(i64, Schema)> {
        const SQL: &str = "SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version";
        let applied: Vec<(i64, Vec<u8>, bool)> = match self {
            Self::Sqlite(conn) => sqlx::query_as(SQL).fetch_all(&mut **conn).await,
            Self::Postgres(conn) => answered(sqlx::query_as(SQL).fetch_all(&mut **conn)).await,
        }
        .map_err(no_tables)?;
        let Some(version) = applied.last().map(|it| it.0) else {
            return Err(StoreError::Schema("it has no tables of Gantry".to_owned()));
        };
        let known = migrate::checksums(self.kind());
        if version > known.len() as i64 {
            let text =
                format!("it is at version {version}, which this program does not know: use a newer one");
            return Err(StoreError::Schema(text));
        }
        let ours = applied.into_iter().map(|(number, checksum, done)| done.then_some((number, checksum)));
        if !ours.eq(known.into_iter().take(version as usize).map(Some)) {
            let text = "its versions were not all made by this program, or not to their end";
            return Err(StoreError::Schema(text.to_owned()));
        }
        let schema = Schema::at(version).map_err(|it| StoreError::Schema(it.to_string()))?;
        for table in &schema.tables {
            self.check_columns(table).await?;
        }
        Ok((version, schema))
    }

    /// Compares a table with the database's catalog.
    async fn check_columns(&mut self, table: &Table) -> StoreResult<()> {
        const SQLITE: &str = "SELECT p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p \
                              WHERE m.type = 'table' AND m.name = $1";
        const POSTGRES: &str = "SELECT column_name::text FROM information_schema.columns \
                                WHERE table_schema = current_schema() AND table_name = $1";
        let mut found: Vec<String> = match self {
            Self::Sqlite(conn) => sqlx::query_scalar(SQLITE).bind(&table.name).fetch_all(&mut **conn).await?,
            Self::Postgres(conn) => {
                answered(sqlx::query_scalar(POSTGRES).bind(&table.name).fetch_all(&mut **conn)).await?
            }
        };
        let mut expected: Vec<&str> = table.columns.iter().map(|it| it.name.as_str()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        if found == expected {
            return Ok(());
        }
        Err(StoreError::Schema(format!(
            "the table `{}` was changed by hand: it has the columns {}, and should have {}",
            table.name,
            found.join(", "),
            expected.join(", ")
        )))
    }

    /// Returns the number last given to a row of the table; `None` if none was.
    pub(crate) async fn sequence(&mut self, table: &Table) -> StoreResult<Option<i64>> {
        const SQLITE: &str = "SELECT seq FROM sqlite_sequence WHERE name = $1 AND seq > 0";
        const POSTGRES: &str =
            "SELECT pg_sequence_last_value(CAST(pg_get_serial_sequence($1, $2) AS regclass))";
        Ok(match self {
            Self::Sqlite(conn) => {
                sqlx::query_scalar(SQLITE).bind(&table.name).fetch_optional(&mut **conn).await?
            }
            Self::Postgres(conn) => {
                let query = sqlx::query_scalar(POSTGRES).bind(&table.name);
                answered(query.bind(&table.columns[table.key].name).fetch_one(&mut **conn)).await?
            }
        })
    }

    /// Passes the rows of a table to `visit`, in the order of their keys.
    pub(crate) async fn each_row(
        &mut self,
        table: &Table,
        visit: &mut (dyn FnMut(&mut Row) -> StoreResult<()> + Send),
    ) -> StoreResult<()> {
        match self {
            Self::Sqlite(conn) => each_sqlite_row(conn, table, visit).await,
            Self::Postgres(conn) => each_postgres_row(conn, table, visit).await,
        }
    }
}

/// A database without the table of versions has none of ours.
fn no_tables(error: sqlx::Error) -> StoreError {
    let missing = |it: &dyn sqlx::error::DatabaseError| {
        it.code().as_deref() == Some("42P01") || it.message().contains("no such table")
    };
    match error {
        sqlx::Error::Database(it) if missing(it.as_ref()) => {
            StoreError::Schema(format!("it has no tables of Gantry (`{MIGRATIONS}` is missing)"))
        }
        other => other.into(),
    }
}

async fn each_sqlite_row(
    conn: &mut SqliteConnection,
    table: &Table,
    visit: &mut (dyn FnMut(&mut Row) -> StoreResult<()> + Send),
) -> StoreResult<()> {
    let key = &table.columns[table.key].name;
    let sql = format!("SELECT {} FROM {} ORDER BY {key}", json::expression(table), table.name);
    let mut rows = sqlx::query_scalar::<_, String>(AssertSqlSafe(sql)).fetch(conn);
    let mut row = Row::default();
    while let Some(found) = rows.try_next().await? {
        json::read(&found, table, &mut row).map_err(|error| {
            StoreError::Schema(format!(
                "a row of `{}` has values that are not of its columns: {error}",
                table.name
            ))
        })?;
        visit(&mut row)?;
    }
    Ok(())
}

/// Waits for the answer of a Postgres, for a limited time.
async fn answered<T>(asked: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    tokio::time::timeout(ANSWER, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

async fn each_postgres_row(
    conn: &mut PgConnection,
    table: &Table,
    visit: &mut (dyn FnMut(&mut Row) -> StoreResult<()> + Send),
) -> StoreResult<()> {
    let key = &table.columns[table.key];
    let order = if key.kind == Kind::Text { " COLLATE \"C\"" } else { "" };
    let columns = table.column_list();
    let sql = format!("COPY (SELECT {columns} FROM {} ORDER BY {}{order}) TO STDOUT", table.name, key.name);
    let mut chunks = answered(conn.copy_out_raw(&sql)).await?;
    let mut row = Row::default();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(chunk) = next(&mut chunks, Some(PATIENCE)).await? {
        // The server sends a message for each row, which the protocol does not promise.
        rest.extend_from_slice(&chunk);
        let mut start = 0;
        while let Some(length) = rest[start..].iter().position(|it| *it == b'\n') {
            read_copy(&rest[start..start + length], table, &mut row)?;
            visit(&mut row)?;
            start += length + 1;
        }
        rest.drain(..start);
    }
    Ok(())
}

fn read_copy(line: &[u8], table: &Table, row: &mut Row) -> StoreResult<()> {
    let wrong =
        || StoreError::Schema(format!("a row of `{}` has values that are not of its columns", table.name));
    let line = std::str::from_utf8(line).map_err(|_| wrong())?;
    row.clear(table.columns.len());
    let mut fields = line.split('\t');
    for (at, column) in table.columns.iter().enumerate() {
        row.parse_copy(at, column.kind, fields.next().ok_or_else(wrong)?).map_err(|_| wrong())?;
    }
    Ok(())
}

/// Checks that a line of a dump can be read again.
///
/// # Errors
/// [`StoreError::Schema`] if it is too long, or holds a NUL byte.
pub(crate) fn check_line(line: &[u8], table: &Table) -> StoreResult<()> {
    let what = if line.len() > ROW_LIMIT {
        "is longer than a dump may have"
    } else if line.contains(&0) {
        "holds a NUL byte, which Postgres can't store"
    } else {
        return Ok(());
    };
    let key = line.split(|it| *it == b'\t').nth(table.key).unwrap_or_default();
    let key = String::from_utf8_lossy(&key[..key.len().min(60)]).into_owned();
    Err(StoreError::Schema(format!("the row `{key}` of `{}` {what}", table.name)))
}
