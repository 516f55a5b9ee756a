//! What is kept of a request: its usage row, its line in the access log, its span, and the counters.

pub mod access;
pub(crate) mod counters;
pub(crate) mod departed;
pub(crate) mod meter;
pub(crate) mod refused_rows;
pub mod spans;
pub mod spool;
pub mod stats;
pub(crate) mod trace;
