//! A Postgres connection in a transaction. The connection is closed if the server no longer answers.

use std::time::Duration;

use sqlx::{
    Connection, PgConnection, PgPool, Postgres, SqlSafeStr, pool::PoolConnection,
    postgres::PgTransactionManager,
};
use sqlx_core::transaction::TransactionManager;
use tokio::time::timeout;

use crate::{StoreError, StoreResult};

/// Longest wait for a transaction to begin. It is short, because the connection has answered just before.
const BEGIN: Duration = Duration::from_secs(5);

/// A connection that is dropped while a statement is under way (the wait timed out, or the caller was cancelled) is
/// closed and not given back to the pool. It may be dead, and a late answer could not be matched to its statement.
/// (sqlx would take it back and wait for that answer for ever, and it knows nothing of a transaction whose `BEGIN` was
/// cancelled: 0.9.0, sqlx-postgres/src/transaction.rs.)
pub(crate) struct PgTransaction {
    pub(crate) conn: PoolConnection<Postgres>,
    /// Longest wait for the answer to a statement.
    limit: Duration,
    /// Whether a statement was sent that the server has not answered yet.
    owed: bool,
}

impl PgTransaction {
    /// Begins a transaction, with `statement` in place of a plain `BEGIN`.
    pub(crate) async fn open(
        pool: &PgPool,
        statement: Option<&'static str>,
        limit: Duration,
    ) -> StoreResult<Self> {
        let mut tx = Self { conn: pool.acquire().await?, limit, owed: true };
        let statement = statement.map(SqlSafeStr::into_sql_str);
        let begun = timeout(BEGIN, PgTransactionManager::begin(&mut tx.conn, statement)).await;
        begun.map_err(late)??;
        tx.owed = false;
        Ok(tx)
    }

    /// Notes that a statement is about to be sent. Returns how long to wait for its answer.
    pub(crate) fn asked(&mut self) -> Duration {
        self.owed = true;
        self.limit
    }

    /// Runs a statement without parameters and without rows.
    pub(crate) async fn run(&mut self, sql: &'static str) -> StoreResult<()> {
        let limit = self.asked();
        let done = timeout(limit, sqlx::query(sql).execute(&mut *self.conn)).await.map_err(late)?;
        self.answered();
        done?;
        Ok(())
    }

    /// Lets the rest of the transaction take the server up to ten minutes, as long as rows keep coming.
    pub(crate) async fn take_long(&mut self) -> StoreResult<()> {
        self.run("SET LOCAL statement_timeout = '10min'").await
    }

    /// Notes that the answer, or an error in its place, has come.
    pub(crate) fn answered(&mut self) {
        self.owed = false;
    }

    pub(crate) async fn commit(&mut self) -> StoreResult<()> {
        let limit = self.asked();
        let done = timeout(limit, PgTransactionManager::commit(&mut self.conn)).await.map_err(late)?;
        self.answered();
        Ok(done?)
    }

    pub(crate) async fn rollback(&mut self) -> StoreResult<()> {
        let limit = self.asked();
        let done = timeout(limit, PgTransactionManager::rollback(&mut self.conn)).await.map_err(late)?;
        self.answered();
        Ok(done?)
    }
}

impl Drop for PgTransaction {
    fn drop(&mut self) {
        if self.owed {
            self.conn.close_on_drop();
        }
    }
}

/// Rolls back a transaction that is still open before the connection goes back to the pool, and checks that the
/// connection is alive.
pub(crate) async fn undo(conn: &mut PgConnection) -> sqlx::Result<()> {
    if conn.is_in_transaction() {
        PgTransactionManager::rollback(conn).await?;
    }
    conn.ping().await
}

fn late(_: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Database(sqlx::Error::PoolTimedOut)
}
