//! Restores a dump: into a scratch database, which is proven and brought to the newest version of the schema, and then
//! takes the place of the live one in one transaction. A SQLite file that no gateway can open is replaced as a whole.

mod files;
mod load;
pub(crate) mod offline;
pub(crate) mod pending;
mod postgres;
pub(crate) mod record;
pub(crate) mod scratch;
mod sqlite;
mod swap;
mod swap_postgres;
mod swap_sqlite;
