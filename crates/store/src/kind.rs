//! The two kinds of databases.

use gantry_domain::words;

words! {
    /// Which database a store is on.
    pub enum DatabaseKind {
        /// A file, and one gateway.
        Sqlite = "sqlite",
        /// A server, and any number of gateways.
        Postgres = "postgres",
    }
}
