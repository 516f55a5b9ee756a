//! The data plane from outside: real sockets on both sides, a scripted engine behind it, rows read from the spool.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod access;
mod addresses;
mod answers;
mod body_memory;
mod breaker;
mod client;
mod clients;
mod coding;
mod connection_limit;
mod departures;
mod endpoints;
mod engine;
mod failures;
mod fallback;
mod gateway;
mod idle;
mod lifecycle;
mod limits;
mod media;
mod metering;
mod simulated;
mod spool;
mod stalls;
mod streams;
mod transcripts;
mod unary;
mod wait_queue;
