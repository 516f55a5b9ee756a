//! The way to an engine: which one gets a request, connections to it, what is done when it fails or falls silent, and
//! what its errors mean.

pub mod breaker;
pub(crate) mod choose;
pub(crate) mod engine;
pub(crate) mod engine_error;
pub(crate) mod exchange;
pub(crate) mod fallback;
pub(crate) mod forward;
pub(crate) mod keeping;
pub(crate) mod pool;
pub mod port_owner;
pub mod progress;
pub(crate) mod unusable;
