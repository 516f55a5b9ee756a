//! Dumps of a database: one text format for SQLite and Postgres, and its strict reader. docs/packages.md describes it.

pub(crate) mod check;
pub(crate) mod count;
pub(crate) mod filter;
pub(crate) mod header;
pub(crate) mod lexer;
pub(crate) mod proof;
pub(crate) mod reader;
pub(crate) mod redact;
pub(crate) mod row;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod source;
pub(crate) mod statement;
pub(crate) mod tables;
pub(crate) mod write;
