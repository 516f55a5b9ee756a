//! The data plane from outside: real sockets on both sides, a scripted engine behind it, rows read from the spool.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod access;
mod addresses;
mod bodies;
mod breaker;
mod client;
mod clients;
mod crowd;
mod departures;
mod endpoints;
mod engine;
mod failures;
mod fallback;
mod gateway;
mod lifecycle;
mod limits;
mod media;
mod metering;
mod returning;
mod simulated;
mod stalls;
mod streams;
mod transcripts;
mod unary;
