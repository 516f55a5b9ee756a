//! A request until it goes to an engine: who sent it, what its body asks for, and which route it takes.

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod body_memory;
pub(crate) mod deadline;
pub(crate) mod defaults;
pub(crate) mod dispatch;
pub(crate) mod inference;
mod models;
pub mod patch;
pub mod peek;
pub(crate) mod token_estimate;
pub(crate) mod wait_queue;
