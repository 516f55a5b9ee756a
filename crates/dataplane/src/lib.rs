//! The data plane: what clients reach at `/v1`, on threads of its own that share nothing but an immutable catalog.
//!
//! - `connection/`: client connections, up to where hyper gives a request
//! - `request/`: who sends it, what its body asks for, which route it takes, and the memory and time that it gets
//! - [`limits`]: whether its caller's limits let it in
//! - `upstream/`: the engine that gets it, the connection there, breaker and stalls, the fallback for chats
//! - `response/`: the answer that passes, or the gateway's own
//! - `record/`: its one usage row and the spool, its log line, its span, and counters
//!
//! What all of them share is beside them. Nothing here opens a database or talks to a container runtime, and no lock is
//! held across an `await`: inference goes on while both are away.

mod caller_id;
mod catalog;
mod config;
mod connection;
pub mod limits;
mod plane;
mod random;
mod record;
mod request;
mod response;
mod shared;
mod thread_state;
mod upstream;

pub use catalog::{Catalog, KeyEntry, Route, RouteTarget, SessionEntry};
pub use config::{BoxError, Config, Media, Other, OtherBody, Peer, SessionCheck};
pub use plane::DataPlane;
pub use record::{
    access,
    counters::{Counters, Retry},
    spans, spool,
    stats::{self, Histogram, ModelStats},
};
pub use request::{
    defaults::RequestDefaults,
    dispatch::{HasEnd, Leaving},
    patch, peek,
};
pub use shared::Shared;
pub use upstream::{
    breaker,
    engine::{InvalidUpstream, Upstream, UpstreamHealth},
    fallback::as_completion,
    forward::is_local_exhaustion,
    port_owner, progress,
};
