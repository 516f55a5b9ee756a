//! Client connections: how many there may be, how each is served, and what happens to clients that are slow, silent or
//! speak no HTTP.

pub(crate) mod hyper_errors;
pub(crate) mod limit;
mod linger;
pub(crate) mod serve;
mod slow_client;
