//! Loads the rows of a dump into a scratch database, and proves that they are the dump's.

use std::io::Read;

use sqlx::{PgConnection, SqliteConnection, error::ErrorKind};

use crate::{
    DatabaseKind, Proof, StoreError, StoreResult,
    dump::{
        check::faults,
        count::count,
        filter::Filter,
        reader::Reader,
        schema::{Schema, Table},
        source::Conn,
    },
    migrate,
    restore::{
        postgres::{self, Schemas},
        sqlite,
    },
};

/// Bytes that are sent to Postgres at once.
const CHUNK: usize = 256 << 10;

/// What is known of a dump before its first row is used.
struct Start {
    /// Index of the first row's table; `None` if the dump has no row.
    next: Option<usize>,
    version: i64,
    schema: Schema,
}

impl Start {
    fn of(reader: &mut Reader<impl Read>) -> StoreResult<Self> {
        let next = reader.next_row()?;
        let unknown = || StoreError::Unproven("its version is not known".to_owned());
        Ok(Self { next, version: reader.version().ok_or_else(unknown)?, schema: reader.schema().clone() })
    }

    /// Returns the tables whose rows the dump brings along: those that migrations put there have to go.
    fn emptied(&self) -> Vec<&Table> {
        let filter = Filter::new(&self.schema);
        let tables = self.schema.tables.iter().enumerate();
        tables.filter(|it| !filter.leaves_out_table(it.0)).map(|it| it.1).collect()
    }
}

/// Fills a new file from a dump, proves it against what was counted on the way and against `expected`, brings it to the
/// newest version, and proves what that must leave as it is. Returns what the dump holds.
pub(super) async fn load_sqlite(
    conn: &mut SqliteConnection,
    mut reader: Reader<impl Read>,
    expected: Option<&Proof>,
) -> StoreResult<Proof> {
    let start = Start::of(&mut reader)?;
    let indexes = sqlite::prepare(conn, start.version, &start.emptied()).await?;
    let mut next = start.next;
    while let Some(at) = next {
        next = fill_sqlite(conn, &mut reader, at, &start.schema.tables[at]).await?;
    }
    let read = accepted(&reader, expected)?;
    sqlite::finish(conn, &indexes, numbers(&read)).await.map_err(misfit)?;
    sqlite::check(conn, true).await?;
    prove(Conn::Sqlite(conn), &start.schema, &read).await?;
    if start.version < newest() {
        // References are checked as they are when a gateway opens the database.
        sqlx::raw_sql("PRAGMA foreign_keys = ON").execute(&mut *conn).await?;
        migrate::apply_until(DatabaseKind::Sqlite, conn, newest()).await?;
        sqlite::check(conn, false).await?;
        prove_migrated(Conn::Sqlite(conn), &read).await?;
    }
    Ok(read)
}

/// Does the same as [`load_sqlite`] in a new schema.
pub(super) async fn load_postgres(
    conn: &mut PgConnection,
    schemas: &Schemas,
    mut reader: Reader<impl Read>,
    expected: Option<&Proof>,
) -> StoreResult<Proof> {
    let start = Start::of(&mut reader)?;
    let definitions = postgres::prepare(conn, schemas, start.version, &start.emptied()).await?;
    let mut next = start.next;
    while let Some(at) = next {
        next = fill_postgres(conn, &mut reader, at, &start.schema.tables[at]).await?;
    }
    let read = accepted(&reader, expected)?;
    postgres::finish(conn, &definitions, numbers(&read)).await.map_err(misfit)?;
    prove(Conn::Postgres(conn), &start.schema, &read).await?;
    if start.version < newest() {
        migrate::apply_until(DatabaseKind::Postgres, conn, newest()).await?;
        prove_migrated(Conn::Postgres(conn), &read).await?;
    }
    postgres::analyze(conn, &start.emptied()).await?;
    Ok(read)
}

fn newest() -> i64 {
    migrate::versions().map(|it| it.0).max().unwrap_or(0)
}

/// Returns what was read to its end, if it can be used.
fn accepted(reader: &Reader<impl Read>, expected: Option<&Proof>) -> StoreResult<Proof> {
    let (read, _) = reader.proof();
    if let Some(expected) = expected {
        agree("the dump is not the one that was expected", expected, &read)?;
    }
    match faults(&read).into_iter().next() {
        None => Ok(read),
        Some(fault) => Err(StoreError::Unproven(fault)),
    }
}

/// Returns the tables that count, with the number last given.
fn numbers(proof: &Proof) -> impl Iterator<Item = (&str, i64)> {
    proof.sequences.iter().map(|(table, last)| (table.as_str(), *last))
}

async fn prove(conn: Conn<'_>, schema: &Schema, read: &Proof) -> StoreResult<()> {
    let found = count(conn, schema).await?;
    agree("the new database is not what the dump holds", read, &found)
}

async fn prove_migrated(mut conn: Conn<'_>, read: &Proof) -> StoreResult<()> {
    let (_, schema) = conn.schema().await?;
    let found = count(conn, &schema).await?;
    let mut differences = read.summary_differences(&found);
    // A migration fills this table: it names days that are still to be added up.
    differences.retain(|it| !it.contains("`usage_unrolled`"));
    no_differences("the migrations changed what they must not", differences)
}

fn agree(what: &str, one: &Proof, other: &Proof) -> StoreResult<()> {
    no_differences(what, one.differences(other))
}

fn no_differences(what: &str, mut differences: Vec<String>) -> StoreResult<()> {
    if differences.is_empty() {
        return Ok(());
    }
    differences.truncate(5);
    Err(StoreError::Unproven(format!("{what}: {}", differences.join("; "))))
}

async fn fill_sqlite(
    conn: &mut SqliteConnection,
    reader: &mut Reader<impl Read>,
    at: usize,
    table: &Table,
) -> StoreResult<Option<usize>> {
    let mut batch = sqlite::Batch::new(table.clone());
    let mut next = Some(at);
    while next == Some(at) {
        let full = batch.add(reader.row())?;
        next = reader.next_row()?;
        if full || next != Some(at) {
            batch.flush(conn).await.map_err(|error| in_rows(error, table, reader.line()))?;
        }
    }
    Ok(next)
}

async fn fill_postgres(
    conn: &mut PgConnection,
    reader: &mut Reader<impl Read>,
    at: usize,
    table: &Table,
) -> StoreResult<Option<usize>> {
    let sql = format!("COPY {} ({}) FROM STDIN", table.name, table.column_list());
    let mut copy = conn.copy_in_raw(&sql).await?;
    let (mut out, mut next) = (Vec::with_capacity(CHUNK * 2), Some(at));
    while next == Some(at) {
        reader.row().write_copy(table, &mut out);
        next = reader.next_row()?;
        if out.len() >= CHUNK || next != Some(at) {
            copy.send(&out[..]).await?;
            out.clear();
            out.shrink_to(CHUNK * 2);
        }
    }
    copy.finish().await.map_err(|error| in_rows(error, table, reader.line()))?;
    Ok(next)
}

fn in_rows(error: sqlx::Error, table: &Table, line: u64) -> StoreError {
    in_dump(error, &format!("a row of `{}`, before line {line}", table.name))
}

fn misfit(error: sqlx::Error) -> StoreError {
    in_dump(error, "its rows do not fit each other")
}

/// Sorts errors of the database into those that the dump's content causes, and others.
fn in_dump(error: sqlx::Error, place: &str) -> StoreError {
    let constraint = |it: &dyn sqlx::error::DatabaseError| !matches!(it.kind(), ErrorKind::Other);
    match error {
        sqlx::Error::Database(it) if constraint(it.as_ref()) => {
            StoreError::Unproven(format!("{place}: {}", it.message()))
        }
        other => other.into(),
    }
}
