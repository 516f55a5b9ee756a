//! Decides which of the gateways on one database may act on the models' containers.
//!
//! Three things record it. First, a lock of Postgres, held by one connection ([`Claim`]): the server frees it when the
//! gateway dies, and also when the gateway falls silent. Second, a row that says which gateway supervises and which
//! containers that gateway sees. Third, the row's epoch: every transaction of the reconciler is checked against it at
//! its end ([`Tx::fence`]), so that a gateway that was overtaken writes nothing. A SQLite file belongs to one gateway,
//! and has no lock here.

use std::time::Duration;

use gantry_domain::Timestamp;
use sqlx::{ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use crate::{
    Store, StoreResult, Tx,
    store::Pools,
    tx::{Db, on_db, row},
};

/// Longest wait to connect for the lock, and for each answer.
const CONNECT: Duration = Duration::from_secs(5);

row! {
    struct SupervisorRow {
        epoch: i64,
        gateway: Option<String>,
        name: Option<String>,
        runtime: Option<String>,
        machine: Option<String>,
        since: Option<i64>,
    }
}

/// A gateway, with the facts that decide whether it may supervise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Id of its data directory.
    pub gateway: String,
    /// The machine's name and the process, for people to read.
    pub name: String,
    /// Identifies the containers that the gateway sees; `None` while its container runtime does not answer.
    pub runtime: Option<String>,
    /// Identifies the machine whose loopback interface the gateway shares.
    pub machine: String,
}

/// The gateway that supervises, or did last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor {
    /// Grows with each change of the supervisor.
    pub epoch: i64,
    /// `None` if no gateway ever supervised, or if the last supervisor was released.
    pub who: Option<Candidate>,
    pub since: Option<Timestamp>,
}

impl From<SupervisorRow> for Supervisor {
    fn from(row: SupervisorRow) -> Self {
        let who = row.gateway.zip(row.name).zip(row.machine);
        let who =
            who.map(|((gateway, name), machine)| Candidate { gateway, name, runtime: row.runtime, machine });
        Self { epoch: row.epoch, who, since: row.since.map(Timestamp) }
    }
}

impl Tx {
    /// Returns which gateway supervises, or did last.
    pub async fn supervisor(&mut self) -> StoreResult<Supervisor> {
        const SQL: &str = "SELECT epoch, gateway, name, runtime, machine, since FROM supervisor WHERE id = 1";
        let row: SupervisorRow = on_db!(self, |conn| sqlx::query_as(SQL).fetch_one(conn).await)?;
        Ok(row.into())
    }

    /// Notes which gateway supervises from now on, and returns the new epoch. Only the holder of the [`Claim`] may call
    /// this.
    pub async fn set_supervisor(&mut self, who: &Candidate, now: Timestamp) -> StoreResult<i64> {
        const SQL: &str = "UPDATE supervisor SET epoch = epoch + 1, gateway = $1, name = $2, runtime = $3, \
                           machine = $4, since = $5 WHERE id = 1 RETURNING epoch";
        // This counts as a change because `fence` needs that, and so that the other gateways look soon.
        self.changes_catalog = true;
        Ok(on_db!(self, |conn| {
            let query = sqlx::query_scalar(SQL).bind(&who.gateway).bind(&who.name).bind(&who.runtime);
            query.bind(&who.machine).bind(now.0).fetch_one(conn).await
        })?)
    }

    /// Forgets which gateway supervised, so that any gateway may. Only for when its containers are known to be gone.
    pub async fn release_supervisor(&mut self) -> StoreResult<()> {
        const SQL: &str = "UPDATE supervisor SET epoch = epoch + 1, gateway = NULL, name = NULL, runtime = NULL, \
                           machine = NULL, since = NULL WHERE id = 1";
        self.changes_catalog = true;
        on_db!(self, |conn| sqlx::query(SQL).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Returns whether a gateway holds the [`Claim`] now; never on SQLite.
    pub async fn is_claimed(&mut self) -> StoreResult<bool> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted \
                           AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                           AND classid = 1196314707 AND objsubid = 2 \
                           AND CAST(objid AS BIGINT) = (CAST(hashtext(current_schema()) AS BIGINT) & 4294967295))";
        match &self.db {
            Db::Sqlite(_) => Ok(false),
            Db::Postgres(_) => Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).fetch_one(conn).await)?),
        }
    }

    /// Makes [`Tx::commit`] fail with [`crate::StoreError::Overtaken`], and change nothing, unless `epoch` is still
    /// that of [`Tx::supervisor`].
    ///
    /// Both a fenced transaction and one that begins a new epoch lock the row that counts changes before they end, and
    /// the epoch is read after that. So either the fenced transaction ends first, or it sees the new epoch and fails.
    pub fn fence(&mut self, epoch: i64) {
        self.epoch = Some(epoch);
    }

    pub(crate) async fn is_epoch(&mut self, epoch: i64) -> StoreResult<bool> {
        Ok(self.supervisor().await?.epoch == epoch)
    }
}

/// The supervisor's lock, on a connection of its own, which must stay in use: see [`Store::claim`].
#[derive(Debug)]
pub struct Claim(PgConnection);

impl Store {
    /// Opens a connection on which the lock can be taken; `None` on SQLite. After `silence` without a statement the
    /// server closes the connection and frees the lock (Postgres 14 or newer), so that a gateway that hangs can't stop
    /// another one from taking over.
    pub async fn claim(&self, silence: Duration) -> StoreResult<Option<Claim>> {
        // `SET` takes no parameters.
        const SQL: &str = "SELECT set_config('idle_session_timeout', $1, false)";
        let Pools::Postgres { pool, .. } = self.pools() else { return Ok(None) };
        let options = PgConnectOptions::clone(&pool.connect_options()).application_name("gantry supervisor");
        let connect = async {
            let mut conn = options.connect().await?;
            // An older server does not know this setting. There only the end of the connection frees the lock.
            let _ = sqlx::query(SQL).bind(silence.as_millis().to_string()).execute(&mut conn).await;
            Ok(Claim(conn))
        };
        let claim = tokio::time::timeout(CONNECT, connect).await;
        claim.map_err(|_| crate::StoreError::Database(sqlx::Error::PoolTimedOut))?.map(Some)
    }
}

impl Claim {
    /// Takes the lock if it is free; taking it twice is the same as once.
    pub async fn take(&mut self) -> StoreResult<bool> {
        // The number is arbitrary; the schema keeps installations apart that share a database.
        const SQL: &str = "SELECT pg_try_advisory_lock(1196314707, hashtext(current_schema()))";
        answer(sqlx::query_scalar(SQL).fetch_one(&mut self.0)).await
    }

    /// Returns whether this very session holds the lock. Behind a pooler that changes sessions it does not.
    pub async fn holds(&mut self) -> StoreResult<bool> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted \
                           AND pid = pg_backend_pid() AND classid = 1196314707 AND objsubid = 2)";
        answer(sqlx::query_scalar(SQL).fetch_one(&mut self.0)).await
    }

    /// Frees the lock in an orderly way. Dropping the claim frees it too, but only once the server notices.
    pub async fn give_back(mut self) -> StoreResult<()> {
        // The server answers this statement when the lock is free. It notices a closed connection only some time later.
        const SQL: &str = "SELECT pg_advisory_unlock_all()";
        answer(sqlx::query(SQL).execute(&mut self.0)).await?;
        answer(self.0.close()).await
    }
}

/// Waits for the answer to a statement that takes the server no time, with a limit.
async fn answer<T>(question: impl Future<Output = sqlx::Result<T>>) -> StoreResult<T> {
    let late = |_| crate::StoreError::Database(sqlx::Error::PoolTimedOut);
    Ok(tokio::time::timeout(CONNECT, question).await.map_err(late)??)
}
