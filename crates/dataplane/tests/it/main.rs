//! The data plane from outside: real sockets on both sides, a scripted engine behind it, rows read from the spool.

mod access;
mod client;
mod engine;
mod failures;
mod gateway;
mod lifecycle;
mod streams;
mod unary;
