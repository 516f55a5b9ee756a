//! Dumps of a database: one text format for SQLite and Postgres, and its strict reader.
//!
//! A dump looks like one that `pg_dump` writes of data alone. Its first line is a comment with a [`crate::DumpHeader`] in
//! JSON. Then come a `COPY public.<table> (<columns>) FROM stdin;` for each table, with rows in the text format of COPY in
//! the order of their keys, up to a line `\.`; and a `SELECT pg_catalog.setval(…)` for each table that counts. The last
//! line is a comment with a [`crate::Proof`] in JSON: a dump without it is cut off.

pub(crate) mod check;
pub(crate) mod count;
pub(crate) mod filter;
pub(crate) mod header;
pub(crate) mod json;
pub(crate) mod lexer;
pub(crate) mod packed;
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
