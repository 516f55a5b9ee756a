//! One unit of work, and the two macros that keep each query written once for both databases.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, TryStreamExt};
use sqlx::{FromRow, Row, Sqlite, Transaction};

use crate::{Seal, StoreError, StoreResult, held::Held};

/// One unit of work. Dropping it without [`Tx::commit`] rolls back. Its methods are in the files of their nouns.
///
/// "Not found" is never an error: the methods return `None` or `false`. After an error, drop the transaction.
///
/// Locks are taken in this order, so that two transactions never wait for each other: a [`Turn`], then
/// [`Tx::lock_model`], then the rows that are written, then the head of the audit log ([`Tx::audit`], the last thing a
/// transaction does itself), and at last the row that counts changes, which [`Tx::commit`] takes.
///
/// The last two fields are the epoch of [`Tx::fence`], and the keys of secrets.
pub struct Tx(pub(crate) Inner, pub(crate) Touched, pub(crate) Option<i64>, pub(crate) Arc<Seal>);

/// Whether the transaction changed something that gateways keep in memory; see [`Tx::changes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Touched {
    #[default]
    Nothing,
    Catalog,
}

/// Work that only one transaction at a time may do, over all gateways that share a Postgres; see [`Tx::take_turn`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turn {
    /// Reads rows, decides, and then writes: [`Tx::exclusive`].
    Decision = 1_196_314_706,
    /// Changes or deletes many rows that another transaction may change at the same time. Postgres locks such rows in
    /// any order, so two of these transactions could wait for each other. Taken after the turn of a decision, and
    /// before any rows.
    Upkeep = 1_196_314_708,
}

pub(crate) enum Inner {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Held),
}

impl Tx {
    pub async fn commit(mut self) -> StoreResult<()> {
        if self.1 == Touched::Catalog || self.2.is_some() {
            self.count_change().await?;
        }
        if let Some(epoch) = self.2
            && !self.is_epoch(epoch).await?
        {
            self.rollback().await?;
            return Err(StoreError::Overtaken);
        }
        match self.0 {
            Inner::Sqlite(tx) => tx.commit().await?,
            Inner::Postgres(mut held) => held.commit().await?,
        }
        Ok(())
    }

    /// Waits for the turn, which lasts until the transaction ends.
    pub(crate) async fn take_turn(&mut self, turn: Turn) -> StoreResult<()> {
        // The numbers are arbitrary (the one between them is the supervisor's); the schema keeps gateways that share a
        // database apart.
        const SQL: &str = "SELECT pg_advisory_xact_lock($1, hashtext(current_schema()))";
        // On SQLite there is one writer anyway.
        if let Inner::Postgres(_) = &self.0 {
            on_db!(self, |conn| sqlx::query(SQL).bind(turn as i32).execute(conn).await.map(drop))?;
        }
        Ok(())
    }

    /// Rolls back and waits until that is done. A plain drop leaves the rollback to the next user of the connection.
    pub async fn rollback(self) -> StoreResult<()> {
        match self.0 {
            Inner::Sqlite(tx) => tx.rollback().await?,
            Inner::Postgres(mut held) => held.rollback().await?,
        }
        Ok(())
    }
}

/// Runs `$body` on whichever database is open. It is compiled once for each driver; the SQL must be valid in both.
///
/// The wait for Postgres ends after [`Held::limit`]: its connection may be dead without having been closed. A `$body`
/// that reads rows one by one, with [`next`], may take longer ([`Held::take_long`]) if it takes `$patience` too and
/// passes it to [`next`].
macro_rules! on_db {
    ($tx:expr, |$conn:ident| $body:expr) => {
        match &mut $tx.0 {
            $crate::tx::Inner::Sqlite(tx) => {
                let $conn = &mut **tx;
                $body
            }
            $crate::tx::Inner::Postgres(held) => {
                let limit = held.asked();
                let $conn = &mut *held.conn;
                match tokio::time::timeout(limit, async { $body }).await {
                    Ok(done) => {
                        held.answered();
                        done
                    }
                    Err(_) => Err(sqlx::Error::PoolTimedOut.into()),
                }
            }
        }
    };
    ($tx:expr, |$conn:ident, $patience:ident| $body:expr) => {
        match &mut $tx.0 {
            $crate::tx::Inner::Sqlite(tx) => {
                let ($conn, $patience) = (&mut **tx, None);
                $body
            }
            $crate::tx::Inner::Postgres(held) => {
                held.take_long().await?;
                let $patience = Some(held.asked());
                let $conn = &mut *held.conn;
                let done = async { $body }.await;
                if done.is_ok() {
                    held.answered();
                }
                done
            }
        }
    };
}
pub(crate) use on_db;

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
