//! How a gateway under test is started.

use std::{collections::BTreeMap, net::TcpListener, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};

/// Name and password of the owner of [`Options::owner`].
pub(crate) const OWNER: (&str, &str) = ("owner", "owner-password");

/// A library that gives a program another clock, where Debian installs it.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
/// How far [`Options::away_from_midnight`] sets a clock ahead.
const AHEAD: Duration = Duration::from_hours(2);
/// No test runs for longer.
const LONGEST: Duration = Duration::from_mins(10);

/// Where a gateway under test keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// A file in its data directory.
    Sqlite,
    /// A fresh schema in `TEST_POSTGRES_URL`.
    Postgres,
}

impl Database {
    /// Returns SQLite, and Postgres where there is one (else `test` is noted as skipped on it).
    pub fn all(test: &str) -> Vec<Self> {
        if std::env::var("TEST_POSTGRES_URL").is_ok() {
            return vec![Self::Sqlite, Self::Postgres];
        }
        crate::skip(&format!("{test} on Postgres"), "TEST_POSTGRES_URL is not set");
        vec![Self::Sqlite]
    }

    /// Returns one of [`Self::all`], chosen by the name of the test and always the same: for a test of what is above the
    /// database, which gains little from the other one. `EVERY_DATABASE=1` gives such a test both.
    pub fn one(test: &str) -> Vec<Self> {
        let all = Self::all(test);
        if all.len() == 1 || std::env::var("EVERY_DATABASE").is_ok_and(|it| it == "1") {
            return all;
        }
        let sum = test.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        vec![all[sum % all.len()]]
    }
}

/// Options for starting a gateway.
#[derive(Debug, Clone)]
pub struct Options {
    pub database: Database,
    /// Settings, which override the defaults for tests.
    pub env: BTreeMap<String, String>,
    /// The database has an owner (`owner` / `owner-password`) before the gateway's first start.
    pub owner: bool,
    pub model_ids: ModelIds,
    /// A socket that is handed to the gateway (`LISTEN_FDS`), as a service manager does.
    pub listener: Option<Arc<TcpListener>>,
    /// Its standard error, where its log goes; `None`: a file, which [`Gateway::log`](crate::Gateway::log) reads.
    pub stderr: Option<Arc<OwnedFd>>,
    /// A program that starts it, with its arguments: `prlimit`, `nsenter`. It must become the gateway (`exec`).
    pub wrapper: Vec<String>,
}

/// The first model id of a database. Containers are named after these ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelIds {
    /// Ids start with 1: for tests without containers.
    FromOne,
    /// Ids start with one from a range that no other gateway under test uses now.
    Own,
    /// Ids start with this one.
    From(i64),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            database: Database::Sqlite,
            env: BTreeMap::new(),
            owner: true,
            model_ids: ModelIds::FromOne,
            listener: None,
            stderr: None,
            wrapper: Vec::new(),
        }
    }
}

impl Options {
    /// Returns options for a gateway that starts containers: no other test has models with the same ids, and changes of
    /// a container are noticed soon.
    pub fn containers() -> Self {
        Self { model_ids: ModelIds::Own, ..Self::default() }
            .env("HEALTH_POLL_SEC", "2")
            .env("MODEL_RECONCILE_SEC", "5")
    }

    /// Returns options for a gateway that makes the owner itself, by its settings.
    pub fn bootstrap() -> Self {
        Self { owner: false, ..Self::default() }
            .env("ADMIN_BOOTSTRAP_USERNAME", OWNER.0)
            .env("ADMIN_BOOTSTRAP_PASSWORD", OWNER.1)
    }

    /// Returns options for a gateway whose engines are processes. Needs no Docker.
    pub fn processes() -> Self {
        Self::default()
            .env("CONTAINER_RUNTIME", "process")
            .env("HEALTH_POLL_SEC", "2")
            .env("MODEL_RECONCILE_SEC", "5")
    }

    /// Sets a variable of the gateway's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Gives the gateway a clock that is far from midnight (UTC), when budgets of a day begin again: if midnight is near, its
    /// clock is two hours ahead. Where libfaketime is not installed, waits for some minutes instead, until midnight has passed.
    pub async fn away_from_midnight(self) -> Self {
        if until_midnight() > LONGEST {
            return self;
        }
        if Path::new(FAKETIME).exists() {
            let ahead = format!("+{}", AHEAD.as_secs());
            let options = self.env("LD_PRELOAD", FAKETIME).env("FAKETIME", &ahead);
            return options.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let rest = until_midnight();
        if rest < Duration::from_mins(3) {
            tokio::time::sleep(rest).await;
        }
        self
    }

    /// Returns how far the gateway's clock is ahead of the machine's.
    pub fn ahead(&self) -> Duration {
        if self.env.contains_key("FAKETIME") { AHEAD } else { Duration::ZERO }
    }

    /// Chooses the database.
    #[must_use]
    pub fn on(mut self, database: Database) -> Self {
        self.database = database;
        self
    }
}

/// Returns the time until the day ends in UTC.
fn until_midnight() -> Duration {
    const DAY: i64 = 24 * 3_600_000;
    Duration::from_millis((DAY - crate::now().0.rem_euclid(DAY)).unsigned_abs())
}
