//! The data plane: what clients reach at `/v1`, on threads of its own that share nothing but an immutable catalog.
//!
//! Life of a request: [`auth`] proves the caller, [`body`] and [`peek`] read what decides routing, [`limits`] admits
//! it, [`forward`] brings it to the engine, [`tap`] lets the answer pass and reads its token counts, [`meter`] writes
//! its one row to the [`spool`]. Nothing here opens a database or talks to a container runtime, and no lock is held
//! across an `await`: inference goes on while both are away.

pub mod access;
mod answer;
mod asked;
mod auth;
pub mod bodies;
mod body;
pub mod breaker;
pub mod catalog;
mod choices;
mod choose;
mod config;
mod conn;
mod crowd;
mod deadline;
mod defaults;
mod elements;
mod engine_error;
mod fallback;
mod forward;
mod inference;
pub mod limits;
mod linger;
pub mod listener;
mod malformed;
mod meter;
mod models;
mod outline;
mod pace;
pub mod patch;
pub mod peek;
mod plane;
mod pool;
pub mod progress;
mod refusal;
mod refused;
mod returning;
mod service;
mod shared;
pub mod spans;
pub mod spool;
mod sse;
pub mod stats;
mod strings;
mod tap;
mod tokens;
mod trace;
pub mod who;
mod worker;

pub use catalog::{Catalog, KeyEntry, Route, RouteTarget, SessionEntry, Upstream, UpstreamHealth};
pub use config::{BoxError, Config, Media, Other, OtherBody, Peer, SessionCheck};
pub use defaults::RequestDefaults;
pub use fallback::as_completion;
pub use forward::is_own_lack;
pub use plane::DataPlane;
pub use service::Leaving;
pub use shared::{Counters, Retry, Shared};
pub use stats::{Histogram, ModelStats};
