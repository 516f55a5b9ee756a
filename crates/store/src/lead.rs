//! Which of several gateways on one database looks after its models: whoever holds a lock that goes with a session.

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};

use crate::{Store, StoreError, StoreResult};

/// For each question to the database.
const LIMIT: Duration = Duration::from_secs(5);
/// The server learns within half a minute that a machine is gone which did not say so.
const SESSION: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

/// Held by one gateway at a time; free again when this value or its process ends in whatever way.
#[derive(Debug)]
pub struct Lead(Option<PgConnection>);

impl Store {
    /// Takes the lead; `None` if another gateway has it. A SQLite database belongs to one gateway, which leads.
    pub async fn lead(&self) -> StoreResult<Option<Lead>> {
        // Databases are often one server's schemas; the lock is the whole server's database's.
        const SQL: &str =
            "SELECT pg_try_advisory_lock(hashtextextended('gantry lead ' || current_schema(), 0))";
        let Some(options) = self.postgres_options() else { return Ok(Some(Lead(None))) };
        in_time(async {
            let mut conn = PgConnection::connect_with(&options).await?;
            conn.execute(SESSION).await?;
            let taken: bool = sqlx::query_scalar(SQL).fetch_one(&mut conn).await?;
            Ok(taken.then_some(Lead(Some(conn))))
        })
        .await
    }
}

impl Lead {
    /// # Errors
    /// The session may be over: another gateway may have the lead by now.
    pub async fn check(&mut self) -> StoreResult<()> {
        let Some(conn) = &mut self.0 else { return Ok(()) };
        in_time(async { Ok(conn.ping().await?) }).await
    }
}

async fn in_time<T>(work: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let late = |_| StoreError::Database(sqlx::Error::PoolTimedOut);
    tokio::time::timeout(LIMIT, work).await.map_err(late)?
}
