//! How a gateway under test is started.

use std::{collections::BTreeMap, net::TcpListener, sync::Arc};

/// Name and password of the owner of [`Options::owner`].
pub(crate) const OWNER: (&str, &str) = ("owner", "owner-password");

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

    /// Chooses the database.
    #[must_use]
    pub fn on(mut self, database: Database) -> Self {
        self.database = database;
        self
    }
}
