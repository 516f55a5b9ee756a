//! One unit of work, and the two macros that keep each query written once for both databases.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, TryStreamExt};
use sqlx::{FromRow, PgConnection, Row, Sqlite, SqliteConnection, Transaction};

use crate::{Seal, StoreError, StoreResult, pg_transaction::PgTransaction, turns::Turn};

/// One unit of work. Dropping it without [`Tx::commit`] rolls back. Its methods are in the files of their nouns.
///
/// "Not found" is never an error: the methods return `None` or `false`. After an error, drop the transaction.
///
/// Locks are taken in this order, so that two transactions never wait for each other: an [`AdvisoryLock`], then
/// [`Tx::lock_model`], then the rows that are written, then the head of the audit log ([`Tx::audit`], the last thing a
/// transaction does itself), and at last the row that counts changes, which [`Tx::commit`] takes.
pub struct Tx {
    pub(crate) db: Db,
    /// Whether the transaction changed something that gateways keep in memory; see [`Tx::change_counter`].
    pub(crate) changes_catalog: bool,
    /// The epoch of [`Tx::fence`].
    pub(crate) epoch: Option<i64>,
    /// The keys that encrypt secrets.
    pub(crate) seal: Arc<Seal>,
    /// The right to the connection of `db`. Fields are dropped in their order, so the connection is free first.
    _turn: Turn,
}

/// Work that only one transaction at a time may do, over all gateways that share a Postgres; see [`Tx::take_lock`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum AdvisoryLock {
    /// Reads rows, decides, and then writes: [`Tx::exclusive`].
    Decision = 1_196_314_706,
    /// Changes or deletes many rows that another transaction may change at the same time. Postgres locks such rows in
    /// any order, so two of these transactions could wait for each other. Taken after the lock of a decision, and
    /// before any rows.
    Upkeep = 1_196_314_708,
}

/// The open transaction of one of the two drivers.
pub(crate) enum Db {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(PgTransaction),
}

/// A connection with a transaction, of one of the two drivers, for statements that are also used without a [`Tx`].
pub(crate) enum Conn<'a> {
    Sqlite(&'a mut SqliteConnection),
    Postgres(&'a mut PgConnection),
}

impl<'a> From<&'a mut SqliteConnection> for Conn<'a> {
    fn from(conn: &'a mut SqliteConnection) -> Self {
        Self::Sqlite(conn)
    }
}

impl<'a> From<&'a mut PgConnection> for Conn<'a> {
    fn from(conn: &'a mut PgConnection) -> Self {
        Self::Postgres(conn)
    }
}

impl Tx {
    pub(crate) fn new(db: Db, turn: Turn, seal: Arc<Seal>) -> Self {
        Self { db, changes_catalog: false, epoch: None, seal, _turn: turn }
    }

    /// Makes what the transaction did visible to others, and durable.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if another gateway supervises by now ([`Tx::fence`]); then nothing was changed.
    pub async fn commit(mut self) -> StoreResult<()> {
        if self.changes_catalog || self.epoch.is_some() {
            self.count_change().await?;
        }
        if let Some(epoch) = self.epoch
            && !self.is_epoch(epoch).await?
        {
            self.rollback().await?;
            return Err(StoreError::Overtaken);
        }
        match self.db {
            Db::Sqlite(tx) => tx.commit().await?,
            Db::Postgres(mut tx) => tx.commit().await?,
        }
        Ok(())
    }

    /// Waits for the lock and holds it until the transaction ends.
    pub(crate) async fn take_lock(&mut self, lock: AdvisoryLock) -> StoreResult<()> {
        // The numbers are arbitrary (the one between them is the supervisor's); the schema keeps gateways that share a
        // database apart.
        const SQL: &str = "SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))";
        // On SQLite there is one writer anyway.
        if let Db::Postgres(_) = &self.db {
            on_db!(self, |conn| sqlx::query(SQL).bind(lock as i32).execute(conn).await.map(drop))?;
        }
        Ok(())
    }

    /// Rolls back and waits until that is done. A plain drop leaves the rollback to the next user of the connection.
    pub async fn rollback(self) -> StoreResult<()> {
        match self.db {
            Db::Sqlite(tx) => tx.rollback().await?,
            Db::Postgres(mut tx) => tx.rollback().await?,
        }
        Ok(())
    }
}

/// Runs `$body` on whichever database is open. It is compiled once for each driver; the SQL must be valid in both.
///
/// The wait for Postgres ends after [`PgTransaction::limit`]: its connection may be dead without having been closed. A
/// `$body` that reads rows one by one, with [`next`], may take longer ([`PgTransaction::take_long`]) if it takes
/// `$patience` too and passes it to [`next`].
///
/// Each statement has a span of level `debug`, `statement`, whose field `method` is the method that contains it.
macro_rules! on_db {
    ($tx:expr, |$conn:ident| $body:expr) => {{
        let span = $crate::tx::statement_span!();
        match &mut $tx.db {
            $crate::tx::Db::Sqlite(tx) => {
                let $conn = &mut **tx;
                tracing::Instrument::instrument(async { $body }, span).await
            }
            $crate::tx::Db::Postgres(tx) => {
                let limit = tx.asked();
                let $conn = &mut *tx.conn;
                let body = tracing::Instrument::instrument(async { $body }, span);
                match tokio::time::timeout(limit, body).await {
                    Ok(done) => {
                        tx.answered();
                        done
                    }
                    Err(_) => Err(sqlx::Error::PoolTimedOut.into()),
                }
            }
        }
    }};
    ($tx:expr, |$conn:ident, $patience:ident| $body:expr) => {{
        let span = $crate::tx::statement_span!();
        match &mut $tx.db {
            $crate::tx::Db::Sqlite(tx) => {
                let ($conn, $patience) = (&mut **tx, None);
                tracing::Instrument::instrument(async { $body }, span).await
            }
            $crate::tx::Db::Postgres(tx) => {
                tx.take_long().await?;
                let $patience = Some(tx.asked());
                let $conn = &mut *tx.conn;
                let done = tracing::Instrument::instrument(async { $body }, span).await;
                if done.is_ok() {
                    tx.answered();
                }
                done
            }
        }
    }};
}
pub(crate) use on_db;

/// Runs `$body` on a [`Conn`], as [`on_db`] does on a [`Tx`].
macro_rules! on_conn {
    ($on:expr, |$conn:ident| $body:expr) => {
        match $on {
            $crate::tx::Conn::Sqlite($conn) => {
                let $conn = &mut **$conn;
                $body
            }
            $crate::tx::Conn::Postgres($conn) => {
                let $conn = &mut **$conn;
                $body
            }
        }
    };
}
pub(crate) use on_conn;

/// Makes the span of a statement; see [`on_db`]. While level `debug` is off, this compares a number and nothing else.
macro_rules! statement_span {
    () => {{
        fn here() {}
        tracing::debug_span!("statement", method = $crate::tx::method_of(std::any::type_name_of_val(&here)))
    }};
}
pub(crate) use statement_span;

/// Returns the method in which a function is declared, from the path of that function:
/// `gantry_store::users::<impl gantry_store::tx::Tx>::user::{{closure}}::here` is in `user`.
pub(crate) fn method_of(path: &str) -> &str {
    path.rsplit("::").skip(1).find(|it| *it != "{{closure}}").unwrap_or(path)
}

/// Returns the next row; see [`on_db`].
pub(crate) async fn next<R>(
    rows: &mut (impl Stream<Item = sqlx::Result<R>> + Unpin),
    patience: Option<Duration>,
) -> StoreResult<Option<R>> {
    let Some(patience) = patience else { return Ok(rows.try_next().await?) };
    let late = |_| StoreError::Database(sqlx::Error::PoolTimedOut);
    Ok(tokio::time::timeout(patience, rows.try_next()).await.map_err(late)??)
}

/// A struct whose fields are columns of the same names. (The derive of sqlx would build both drivers a second time,
/// for the host.)
macro_rules! row {
    ($(#[$meta:meta])* struct $name:ident { $($field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        pub(crate) struct $name { $(pub(crate) $field: $type,)+ }

        impl<'r, R> sqlx::FromRow<'r, R> for $name
        where
            R: sqlx::Row,
            for<'a> &'a str: sqlx::ColumnIndex<R>,
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)+
        {
            fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
                Ok(Self { $($field: row.try_get(stringify!($field))?,)+ })
            }
        }
    };
}
pub(crate) use row;

/// Two row structs read from one joined row.
pub(crate) struct Both<A, B>(pub(crate) A, pub(crate) B);

impl<'r, R: Row, A: FromRow<'r, R>, B: FromRow<'r, R>> FromRow<'r, R> for Both<A, B> {
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self(A::from_row(row)?, B::from_row(row)?))
    }
}

#[cfg(test)]
mod tests {
    use super::method_of;

    #[tokio::test]
    async fn a_statement_is_named_after_its_method() {
        fn here() {}
        let nested = async { std::any::type_name_of_val(&here) }.await;
        assert_eq!(method_of(nested), "a_statement_is_named_after_its_method");
    }
}
