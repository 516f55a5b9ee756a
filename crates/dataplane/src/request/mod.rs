//! A request until it goes to an engine: who sent it, what its body asks for, and which route it takes.

mod admitted;
pub(crate) mod auth;
mod availability;
pub(crate) mod body;
pub(crate) mod body_memory;
mod coding;
pub(crate) mod deadline;
pub(crate) mod defaults;
pub(crate) mod dispatch;
pub(crate) mod inference;
mod models;
pub mod patch;
pub mod peek;
mod peeked;
mod routed;
pub(crate) mod token_estimate;
mod wait_for_model;
pub(crate) mod wait_queue;
