//! Opening a database and handing out transactions.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use sqlx::{
    Connection, Executor, PgConnection, PgPool, SqlitePool,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{
    DatabaseKind, Seal, StoreError, StoreResult, Tx,
    migrate::apply,
    pg_transaction::{self, PgTransaction},
    restore::pending::finish_pending,
    turns::{Queue, Queues, Turn},
    tx::Db,
};

/// Longest time that a statement on SQLite waits for a lock of another process (a backup, say).
const SQLITE_BUSY: Duration = Duration::from_secs(10);
/// Longest wait for a connection whose turn it is ([`Queue`]): only a restore that is put in place holds it so long.
const SQLITE_ACQUIRE: Duration = Duration::from_secs(30);
/// Pause before [`connect_writer`] tries again. Turning the write-ahead log on takes a millisecond or two.
const SQLITE_TURN: Duration = Duration::from_millis(10);
const SQLITE_READERS: u32 = 4;
/// Connections for [`Store::read_quick`]: one for the publisher, and the others for checks whether a session is still
/// valid.
const QUICK_READERS: u32 = 3;
/// Page cache of the writer, in KiB (a negative number means KiB in SQLite). A batch of usage rows changes pages at the
/// end of each of some hundred groups in six indexes. With the default of 2 MiB, pages were written and read again
/// within one batch.
const SQLITE_WRITER_CACHE: &str = "-16384";
/// The write-ahead log is cut to this size (64 MiB) once all of it is in the file. A long-running reader makes the log
/// grow, and without this limit it would stay that large.
const SQLITE_LOG_LIMIT: &str = "67108864";
/// Rows that a connection's thread may read ahead of the task that uses them. Each handover costs two thread switches:
/// with sqlx's default of 50 an export spent more time in them than in reading.
const SQLITE_ROWS_AHEAD: usize = 256;
const POSTGRES_CONNECTIONS: u32 = 10;
/// Longest wait for a connection whose turn it is ([`Queue`]): after this, the server can't be reached. Making one takes
/// milliseconds, and some hundred on a machine whose CPUs are busy.
const POSTGRES_ACQUIRE: Duration = Duration::from_secs(5);
/// Settings of each connection. A statement that waits longer for a lock (a table that somebody locked by hand) is
/// given up, as if the database were away; our own transactions hold locks for milliseconds. A transaction whose
/// gateway has gone silent (its machine is gone) loses its locks. Notices are not wanted: see [`open_postgres`].
const POSTGRES_SESSION: &str = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '30s'; \
                                SET client_min_messages = error; SET statement_timeout = '45s'";
/// Settings of each connection of [`Store::read_quick`]. `statement_timeout` is a little longer than the gateway waits
/// for a statement, so that a statement that is no longer waited for ends at the server too.
const POSTGRES_QUICK_SESSION: &str = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '30s'; \
                                      SET client_min_messages = error; SET statement_timeout = '12s'";
/// Ends a statement whose client has gone (since Postgres 14). Where this setting is missing, `statement_timeout` ends
/// it.
pub(crate) const POSTGRES_LEFT: &str =
    "SELECT set_config(name, '2s', false) FROM pg_settings WHERE name = 'client_connection_check_interval'";
/// Longest wait for the first connection. A server may accept it and then never answer.
const POSTGRES_CONNECT: Duration = Duration::from_secs(10);
/// Longest time to apply the schema, which may have to wait for another gateway that does so.
const POSTGRES_MIGRATE: Duration = Duration::from_mins(2);
/// Longest time of a unit of work ([`in_time`]). It is longer than writers wait for their turn on SQLite. On Postgres
/// it is also the limit of each statement.
const UNIT_OF_WORK: Duration = Duration::from_secs(40);
/// Longest wait for a statement of [`Store::read_quick`], which only reads small amounts.
const QUICK_WORK: Duration = Duration::from_secs(10);
const PING: &str = "SELECT 1";
/// Size of the statement cache. It is more than the number of SQL texts in this crate.
const STATEMENTS: usize = 256;

/// An open database whose schema is that of this program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pools: Pools,
    queues: Queues,
    seal: Arc<Seal>,
}

#[derive(Debug, Clone)]
pub(crate) enum Pools {
    Sqlite { writer: SqlitePool, readers: SqlitePool, quick: SqlitePool },
    Postgres { pool: PgPool, quick: PgPool },
}

impl Pools {
    /// Makes a queue for each pool, with as many turns at a time as the pool has connections.
    fn queues(&self) -> Queues {
        match self {
            Self::Sqlite { writer, readers, quick } => Queues {
                writers: Queue::before(writer.options().get_max_connections()),
                readers: Queue::before(readers.options().get_max_connections()),
                quick: Queue::before(quick.options().get_max_connections()),
            },
            Self::Postgres { pool, quick } => {
                let queue = Queue::before(pool.options().get_max_connections());
                let quick = Queue::before(quick.options().get_max_connections());
                Queues { writers: queue.clone(), readers: queue, quick }
            }
        }
    }
}

impl Store {
    /// Opens `sqlite://<path>` (made with mode 0600 if it does not exist; its folder must) or `postgres://…`, and
    /// brings the schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Address`] for anything else, [`StoreError::Schema`] for a database of a newer program or one
    /// whose schema was changed by hand, [`StoreError::Database`] if it can't be reached.
    pub async fn open(url: &str) -> StoreResult<Self> {
        let pools = if let Some(path) = url.strip_prefix("sqlite://") {
            open_sqlite(path).await?
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            open_postgres(url).await?
        } else {
            let text = "it must begin with `sqlite://` or `postgres://`";
            return Err(StoreError::Address(text.to_owned()));
        };
        let store = Self { queues: pools.queues(), pools, seal: Arc::default() };
        store.roll_up_old_usage().await?;
        Ok(store)
    }

    /// Returns the store with the keys that encrypt its secrets. Without keys, new secrets are not encrypted, and
    /// encrypted ones can't be read.
    #[must_use]
    pub fn with_seal(self, seal: Seal) -> Self {
        Self { seal: Arc::new(seal), ..self }
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.pools
    }

    pub(crate) fn seal(&self) -> Arc<Seal> {
        Arc::clone(&self.seal)
    }

    /// Opens an existing database that has the schema of this program, for reading. Refuses any other one, and makes
    /// and changes nothing. A writing transaction fails.
    ///
    /// # Errors
    /// Those of [`Self::open`]; [`StoreError::Schema`] also for a database of an older program.
    pub async fn open_to_read(url: &str) -> StoreResult<Self> {
        let found = crate::inspect(url).await?;
        if found.version != Some(found.newest) {
            let why = match found.version {
                None => "it has no tables of Gantry".to_owned(),
                Some(version) => format!(
                    "it is of version {version}, and this program reads version {} only: {}",
                    found.newest,
                    if version < found.newest {
                        "start the gateway once, which brings it up to date, or use the program that wrote it"
                    } else {
                        "use the program that wrote it"
                    }
                ),
            };
            return Err(StoreError::Schema(why));
        }
        let pools = if let Some(path) = url.strip_prefix("sqlite://") {
            let options = SqliteConnectOptions::new().filename(path).busy_timeout(SQLITE_BUSY);
            let options = options.pragma("query_only", "ON").statement_cache_capacity(STATEMENTS);
            let pool = SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options);
            Pools::Sqlite { writer: pool.clone(), readers: pool.clone(), quick: pool }
        } else {
            let options = [("default_transaction_read_only", "on")];
            let options = postgres_options(url)?.options(options);
            let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(POSTGRES_ACQUIRE);
            let pool = pool.connect_lazy_with(options);
            Pools::Postgres { pool: pool.clone(), quick: pool }
        };
        Ok(Self { queues: pools.queues(), pools, seal: Arc::default() })
    }

    /// Returns which database this is.
    pub fn kind(&self) -> DatabaseKind {
        match &self.pools {
            Pools::Sqlite { .. } => DatabaseKind::Sqlite,
            Pools::Postgres { .. } => DatabaseKind::Postgres,
        }
    }

    /// Begins a transaction that may write. On SQLite there is one at a time. Others wait for their turn, in order.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if the turn does not come within 20 s or 1,000 others wait, as for [`Self::read`].
    pub async fn write(&self) -> StoreResult<Tx> {
        let turn = self.turn(&self.queues.writers).await?;
        let db = match &self.pools {
            // A deferred transaction that turns into a writer fails at once if another one wrote meanwhile.
            Pools::Sqlite { writer, .. } => Db::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?),
            Pools::Postgres { pool, .. } => {
                Db::Postgres(PgTransaction::open(pool, None, UNIT_OF_WORK).await?)
            }
        };
        Ok(Tx::new(db, turn, Arc::clone(&self.seal)))
    }

    /// Begins a transaction that can't write: on both databases a writing statement in it is an error. On SQLite it
    /// never waits for writers. All its statements see the database as it was at the first one.
    pub async fn read(&self) -> StoreResult<Tx> {
        let turn = self.turn(&self.queues.readers).await?;
        match &self.pools {
            Pools::Sqlite { readers, .. } => begin_sqlite(readers, turn, &self.seal).await,
            Pools::Postgres { pool, .. } => begin_postgres(pool, turn, UNIT_OF_WORK, &self.seal).await,
        }
    }

    /// Begins a reading transaction like [`Self::read`], but on connections that no long query uses. For reads that
    /// must never wait, such as whether a key was revoked or a session ended.
    pub async fn read_quick(&self) -> StoreResult<Tx> {
        let turn = self.turn(&self.queues.quick).await?;
        match &self.pools {
            Pools::Sqlite { quick, .. } => begin_sqlite(quick, turn, &self.seal).await,
            Pools::Postgres { quick, .. } => begin_postgres(quick, turn, QUICK_WORK, &self.seal).await,
        }
    }

    /// Waits for a turn. If it does not come because those before wait for a database that does not answer, the error
    /// says so.
    async fn turn(&self, queue: &Queue) -> StoreResult<Turn> {
        let turn = queue.turn().await;
        if turn.is_err() && self.kind() == DatabaseKind::Postgres {
            self.ping().await?;
        }
        turn
    }

    /// Checks that the database answers a query, on a connection of [`Self::read_quick`].
    pub async fn ping(&self) -> StoreResult<()> {
        match &self.pools {
            Pools::Sqlite { quick, .. } => sqlx::query(PING).execute(quick).await.map(drop)?,
            Pools::Postgres { quick, .. } => ping_postgres(quick).await?,
        }
        Ok(())
    }

    /// Checks the connections of [`Self::read`] in the same way: all of them may be busy, or dead. On SQLite they are
    /// in this process, and always there.
    pub async fn ping_slow(&self) -> StoreResult<()> {
        match &self.pools {
            Pools::Sqlite { .. } => Ok(()),
            Pools::Postgres { pool, .. } => ping_postgres(pool).await,
        }
    }

    /// Waits for running transactions and closes all connections. On SQLite this also writes the log back into the
    /// file.
    pub async fn close(&self) {
        match &self.pools {
            Pools::Sqlite { writer, readers, quick } => {
                // The writer goes last: the last connection of all removes the write-ahead log.
                quick.close().await;
                readers.close().await;
                writer.close().await;
            }
            Pools::Postgres { pool, quick } => {
                quick.close().await;
                pool.close().await;
            }
        }
    }
}

/// Gives up a unit of work that takes longer than any of ours should (40 s): its connection is dead without having been
/// closed. For tasks that nothing would start again. Dropping them undoes what was not committed.
///
/// # Errors
/// Those of `work`, and [`StoreError::is_unavailable`] after the time.
pub async fn in_time<T>(work: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let late = |_| StoreError::Database(sqlx::Error::PoolTimedOut);
    tokio::time::timeout(UNIT_OF_WORK, work).await.map_err(late)?
}

async fn begin_sqlite(pool: &SqlitePool, turn: Turn, seal: &Arc<Seal>) -> StoreResult<Tx> {
    Ok(Tx::new(Db::Sqlite(pool.begin().await?), turn, Arc::clone(seal)))
}

/// Begins a transaction of Postgres whose statements all see one moment.
pub(crate) const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// Comes right after [`BEGIN_READ`]. A restore locks all tables. The lock is taken before the snapshot, so that the snapshot
/// is from before or after it: an older one would show the tables that it moved with rows of those that it changed (see
/// `restore::swap_postgres`).
pub(crate) const LOCK_READ: &str = "LOCK TABLE meta IN ACCESS SHARE MODE";

async fn begin_postgres(pool: &PgPool, turn: Turn, limit: Duration, seal: &Arc<Seal>) -> StoreResult<Tx> {
    let mut tx = PgTransaction::open(pool, Some(BEGIN_READ), limit).await?;
    tx.run(LOCK_READ).await?;
    let db = Db::Postgres(tx);
    Ok(Tx::new(db, turn, Arc::clone(seal)))
}

/// Checks that Postgres answers. Taking a connection is enough: the pool tests it before it hands it out, with a limit.
async fn ping_postgres(pool: &PgPool) -> StoreResult<()> {
    drop(pool.acquire().await?);
    Ok(())
}

async fn open_sqlite(path: &str) -> StoreResult<Pools> {
    if path.is_empty() || path.starts_with(':') || path.contains('?') {
        let text = "`sqlite://` must be followed by the path of a file, without parameters";
        return Err(StoreError::Address(text.to_owned()));
    }
    let path = Path::new(path);
    // Otherwise an interrupted restore would leave us with a new, empty file here.
    finish_pending(path)?;
    create_private(path).map_err(|error| StoreError::Address(format!("{}: {error}", path.display())))?;

    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // A revocation that was answered must survive a power cut; the few commits a second can wait for the disk.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(SQLITE_BUSY)
        .row_buffer_size(SQLITE_ROWS_AHEAD)
        .statement_cache_capacity(STATEMENTS);
    // Local connections neither break nor age, so they are not tested before use and do not expire.
    let pool = || {
        SqlitePoolOptions::new()
            .acquire_timeout(SQLITE_ACQUIRE)
            .test_before_acquire(false)
            // After some errors (a full disk) SQLite ends the transaction by itself. sqlx still takes it for open,
            // because its own ROLLBACK then fails, and would refuse every further transaction. Such a connection is
            // replaced.
            .before_acquire(|conn, _| Box::pin(async move { Ok(!conn.is_in_transaction()) }))
            .idle_timeout(None)
            .max_lifetime(None)
    };
    let writer = options.clone().pragma("cache_size", SQLITE_WRITER_CACHE);
    let writer = writer.pragma("journal_size_limit", SQLITE_LOG_LIMIT);
    let writer = connect_writer(pool().max_connections(1), writer).await?;
    // Two processes may open a new file at the same time; the second waits here and finds the schema complete.
    let mut tx = writer.begin_with("BEGIN IMMEDIATE").await?;
    apply(DatabaseKind::Sqlite, &mut *tx).await?;
    tx.commit().await?;
    let options = options.pragma("query_only", "ON");
    let readers = pool().max_connections(SQLITE_READERS).connect_lazy_with(options.clone());
    let quick = pool().max_connections(QUICK_READERS).connect_lazy_with(options);
    Ok(Pools::Sqlite { writer, readers, quick })
}

/// Connects the writer, and tries again for [`SQLITE_BUSY`] while another process is in the way. Only turning on a new
/// file's write-ahead log needs this: if two connections do so at once, SQLite gives one of them "database is locked"
/// without waiting, as each holds the lock that the other one waits for (<https://sqlite.org/c3ref/busy_handler.html>).
/// Everything else waits in SQLite itself.
async fn connect_writer(pool: SqlitePoolOptions, options: SqliteConnectOptions) -> sqlx::Result<SqlitePool> {
    let until = Instant::now() + SQLITE_BUSY;
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && Instant::now() < until => tokio::time::sleep(SQLITE_TURN).await,
            done => return done,
        }
    }
}

/// Returns whether the error is `SQLITE_BUSY`, extended codes (<https://sqlite.org/rescode.html>) included: their
/// lowest byte is the plain code.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|it| it.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// Creates the file readable for its owner only; SQLite gives its log files the same mode. Leaves an existing file as
/// it is.
fn create_private(path: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.map(drop),
    }
}

fn postgres_options(url: &str) -> StoreResult<PgConnectOptions> {
    Ok(PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Address("it is not a valid `postgres://` address".to_owned()))?
        .application_name("gantry")
        .statement_cache_capacity(STATEMENTS))
}

async fn open_postgres(url: &str) -> StoreResult<Pools> {
    let options = postgres_options(url)?;
    // This is a separate connection: closing it also frees the advisory lock if applying the schema failed.
    let late = |_| StoreError::Database(sqlx::Error::PoolTimedOut);
    let connecting = PgConnection::connect_with(&options);
    let connected = tokio::time::timeout(POSTGRES_CONNECT, connecting).await;
    let mut conn = connected.map_err(|_| StoreError::silent_server())??;
    let migrated = tokio::time::timeout(POSTGRES_MIGRATE, async {
        let done = apply(DatabaseKind::Postgres, &mut conn).await;
        conn.close().await?;
        done
    });
    migrated.await.map_err(late)??;
    let pool = |connections, session: &'static str| {
        PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(POSTGRES_ACQUIRE)
            .after_connect(move |conn, _| {
                Box::pin(async move {
                    conn.execute(session).await?;
                    // Some platforms list this setting but reject it, so its error is ignored. A broken connection
                    // shows at the next statement.
                    let _ = conn.execute(POSTGRES_LEFT).await;
                    Ok(())
                })
            })
            // sqlx tests a connection that is given back, and waits for ever: a connection that is dead without having
            // been closed would keep its place in the pool. So this test has a limit. It also undoes what was not
            // committed.
            .after_release(|conn, _| {
                Box::pin(async move {
                    let late = |_| sqlx::Error::PoolTimedOut;
                    tokio::time::timeout(POSTGRES_ACQUIRE, pg_transaction::undo(conn))
                        .await
                        .map_err(late)??;
                    Ok(true)
                })
            })
            .connect_lazy_with(options.clone())
    };
    Ok(Pools::Postgres {
        pool: pool(POSTGRES_CONNECTIONS, POSTGRES_SESSION),
        quick: pool(QUICK_READERS, POSTGRES_QUICK_SESSION),
    })
}
