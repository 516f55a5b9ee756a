//! The first and the last line of a dump of ours, and what else its grammar consists of.

use gantry_domain::words;
use serde::{Deserialize, Serialize};

use crate::DatabaseKind;

/// Version of the format.
pub(crate) const FORMAT: u32 = 1;
/// Begins the first line of a dump; a [`DumpHeader`] in JSON follows.
pub(crate) const HEADER: &str = "-- gantry-dump: ";
/// Begins the last line of a dump; a [`crate::Proof`] in JSON follows.
pub(crate) const TRAILER: &str = "-- gantry-proof: ";
/// The line that `pg_dump` ends with.
pub(crate) const PG_DUMP_END: &str = "-- PostgreSQL database dump complete";
/// The table of migrations, which is in dumps of `pg_dump` only.
pub(crate) const MIGRATIONS: &str = "_sqlx_migrations";

words! {
    /// What a dump holds of secrets that the gateway has to send on: hub tokens, keys of other engines, and what all
    /// gateways on a database share. Passwords, keys and tokens of users are stored as hashes only, and always kept.
    pub enum DumpSecrets {
        /// None of them, no variables of `extra_env`, and not the models base directory, which another machine does not have.
        /// For packages.
        WithoutEnv = "without_env",
        /// The same, but with the variables of `extra_env` that are no secrets by their names or values. For packages whose
        /// maker asked for them.
        Redacted = "redacted",
        /// All of them, encrypted as in the database, so that only a gateway with the same keys can read them. For
        /// backups. A secret that is in clear in the database is encrypted, or left out if there is no key.
        Sealed = "sealed",
        /// All of them as they are. Only for a file that is read at once and removed.
        AsStored = "as_stored",
    }
}

words! {
    /// Who wrote a dump.
    pub enum DumpKind {
        /// Gantry.
        Gantry = "gantry",
        /// `pg_dump` of Postgres.
        PgDump = "pg_dump",
    }
}

/// The first line of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpHeader {
    /// Version of the format: 1.
    pub format: u32,
    /// Version of the schema.
    pub schema_version: i64,
    /// Id of the installation; `None` if it never had one.
    pub instance: Option<String>,
    /// RFC 3339.
    pub created_at: String,
    /// Version of the program that wrote the dump.
    pub gateway_version: String,
    pub database: DatabaseKind,
    pub secrets: DumpSecrets,
}
