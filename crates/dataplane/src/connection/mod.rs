//! Client connections: how many there may be, how each is served, and what happens to clients that are slow, silent or
//! speak no HTTP.

pub(crate) mod accept;
mod hyper_errors;
mod limit;
mod linger;
mod patience;
pub(crate) mod places;
mod serve;
pub(crate) mod settings;
mod slow_client;
pub(crate) mod state;
