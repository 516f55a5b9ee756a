//! What can go wrong below the API, in the terms that callers branch on.

use std::{fmt, io};

use gantry_domain::{ApiError, ErrorCode};
use sqlx::error::ErrorKind;

use crate::dump::lexer::DumpError;

/// Seconds after which a caller who found the database busy should ask again.
const BUSY_RETRY_SEC: u64 = 5;

/// What the methods of this crate return.
pub type StoreResult<T> = Result<T, StoreError>;

/// Every failure of this crate. After an error the [`crate::Tx`] must be dropped: Postgres refuses further statements.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address of the database can't be used.
    #[error("the database address is not usable: {0}")]
    Address(String),
    /// The schema belongs to another version of the program, or was changed by hand. Nothing was touched.
    #[error("the database schema does not fit this program: {0}")]
    Schema(String),
    /// A value that must be unique is taken.
    #[error("{0} is taken")]
    Conflict(Constraint),
    /// A row that the new one refers to is gone, or belongs to another organisation.
    #[error("the row refers to another one that does not exist")]
    Reference,
    /// A row was written by something other than this program.
    #[error("row `{id}` of table `{table}` does not decode: {what}")]
    Corrupt { table: &'static str, id: String, what: &'static str },
    /// A secret is encrypted with a key that this gateway does not have.
    #[error(
        "`{what}` in the database is encrypted with the key {key}, which this gateway does not have: copy \
         DATA_DIR/secrets/database-keys from the gateway that wrote it, or from the backup"
    )]
    Sealed { what: String, key: String },
    /// The system's random source failed, or the secret is too long.
    #[error("a secret could not be encrypted")]
    Seal,
    /// The transaction's gateway no longer supervises the models. Nothing was changed.
    #[error("another gateway supervises the models by now")]
    Overtaken,
    /// A dump could not be written to where it goes.
    #[error("the dump can't be written: {0}")]
    Sink(#[source] io::Error),
    /// A dump can't be read, or is not accepted. Nothing was changed.
    #[error("the dump is not accepted: {0}")]
    Dump(#[from] DumpError),
    /// A restore would replace what is in the database, and that was not asked for. Nothing was changed.
    #[error(
        "relation already exists: the database has users. Repeat with `drop_existing` to replace everything that is in it"
    )]
    Exists,
    /// What a dump makes can't be used, or is not what the dump says. Nothing was changed.
    #[error("the dump can't be restored: {0}")]
    Unproven(String),
    /// A scratch database on SQLite can't take the place of one on Postgres, or the other way round.
    #[error("the scratch database is of another kind than the database")]
    KindDiffers,
    /// Another restore into the database is under way.
    #[error("another restore into this database is under way")]
    RestoreRuns,
    /// The job that restores has ended meanwhile, because somebody cancelled it. Nothing was changed.
    #[error("the job has ended before the restored database could be put in place")]
    JobEnded,
    /// More callers want the database than it can serve: 1,000 wait, or the turn did not come within 20 s.
    #[error("the database is busy with other work")]
    Busy,
    /// Everything else: the database can't be reached, is damaged or full, or the statement failed.
    #[error("the database did not answer as expected")]
    Database(#[source] sqlx::Error),
}

impl StoreError {
    /// The error of a server that took the connection and does not answer.
    pub(crate) fn silent_server() -> Self {
        let said = "the server took the connection and says nothing: it is frozen, or it is no Postgres";
        Self::Database(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, said)))
    }

    /// Returns the id of the row that does not decode.
    pub fn row(&self) -> Option<&str> {
        match self {
            Self::Corrupt { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Returns whether the database can't be reached, is overloaded, or can't be written to now, so that the same call
    /// may succeed later.
    pub fn is_unavailable(&self) -> bool {
        self.obstacle().is_some()
    }

    /// Returns what to answer to a client if the same call may succeed later; `None` for all other errors.
    pub fn refusal(&self) -> Option<ApiError> {
        let (code, message) = match self.obstacle()? {
            Obstacle::Busy => {
                let busy = ApiError::new(ErrorCode::DatabaseBusy, "the database is busy with other work");
                return Some(busy.retry_after(BUSY_RETRY_SEC));
            }
            Obstacle::ReadOnly => (ErrorCode::DatabaseUnavailable, "the database can't be written to now"),
            Obstacle::Away => (ErrorCode::DatabaseUnavailable, "the database can't be reached"),
        };
        Some(ApiError::new(code, message))
    }

    fn obstacle(&self) -> Option<Obstacle> {
        use sqlx::Error as E;
        match self {
            Self::Busy => Some(Obstacle::Busy),
            Self::Database(E::Io(_) | E::Tls(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed) => {
                Some(Obstacle::Away)
            }
            Self::Database(E::Database(it)) => Obstacle::of_code(it.code()?.as_ref()),
            _ => None,
        }
    }
}

/// What keeps a call from success that may succeed later.
enum Obstacle {
    /// Others use the database, or what they lock in it.
    Busy,
    /// It can be read only, or its disk is full.
    ReadOnly,
    /// It can't be reached.
    Away,
}

impl Obstacle {
    /// Reads an error code: five characters are Postgres's
    /// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>), and a number is SQLite's, whose extended
    /// codes keep the primary one in the low byte (<https://sqlite.org/rescode.html>).
    fn of_code(code: &str) -> Option<Self> {
        if code.len() == 5 {
            return match code {
                // A lock that another client holds for too long; a deadlock or serialization failure, in which the
                // other transaction goes on; a statement that took too long.
                "55P03" | "40P01" | "40001" | "57014" => Some(Self::Busy),
                // A standby, or an operator's measure against a full disk.
                "25006" => Some(Self::ReadOnly),
                // Connection lost; no room or too many connections; shutting down or starting up.
                _ => ["08", "53", "57P"].iter().any(|it| code.starts_with(it)).then_some(Self::Away),
            };
        }
        match code.parse::<i32>().ok()? & 0xff {
            // BUSY, LOCKED.
            5 | 6 => Some(Self::Busy),
            // READONLY, FULL.
            8 | 13 => Some(Self::ReadOnly),
            // IOERR, CANTOPEN.
            10 | 14 => Some(Self::Away),
            _ => None,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(source) = &error else { return Self::Database(error) };
        match source.kind() {
            ErrorKind::ForeignKeyViolation => Self::Reference,
            ErrorKind::UniqueViolation => {
                match Constraint::find(source.constraint().unwrap_or_else(|| source.message())) {
                    Some(constraint) => Self::Conflict(constraint),
                    None => Self::Database(error),
                }
            }
            _ => Self::Database(error),
        }
    }
}

/// A unique index that callers can run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// The name of an organisation, without regard to case.
    OrgName,
    /// The name of a user, without regard to case.
    Username,
    /// The served name of a model that is neither archived nor being deleted.
    ServedName,
    /// The hash of a key's token.
    KeyHash,
    /// That one deployment job runs at a time.
    DeploymentJob,
}

impl Constraint {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OrgName, Self::Username, Self::ServedName, Self::KeyHash, Self::DeploymentJob];

    /// Returns the name of the index in both databases, and the column by which SQLite names it in its message.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::OrgName => ("orgs_name", "orgs.name_lower"),
            Self::Username => ("users_username", "users.username_lower"),
            Self::ServedName => ("models_served_name", "models.served_name"),
            Self::KeyHash => ("api_keys_token_hash", "api_keys.token_hash"),
            Self::DeploymentJob => ("jobs_deployment", "jobs.state"),
        }
    }

    /// Finds the constraint. `text` is the name of an index (Postgres) or `UNIQUE constraint failed: table.column`
    /// (SQLite).
    fn find(text: &str) -> Option<Self> {
        let column = text.strip_prefix("UNIQUE constraint failed: ");
        Self::ALL.into_iter().find(|it| {
            let (index, sqlite) = it.names();
            text == index || column == Some(sqlite)
        })
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OrgName => "the organisation's name",
            Self::Username => "the username",
            Self::ServedName => "the served name",
            Self::KeyHash => "the key's token",
            Self::DeploymentJob => "the place of the one deployment job",
        })
    }
}
