//! The data plane: what it serves, requests to it, and what it knows of limits.

use std::io;

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use gantry_domain::{
    ApiError, KeyId, OrgId, UserId,
    host::RouteHealth,
    limit::{Limits, Standing},
    model::{EngineKind, Task},
};
use http::{Request, Response};

/// What the data plane serves now.
pub trait DataPlane: Send + Sync + 'static {
    /// Whether the data plane accepts the session with this hash.
    fn session_known(&self, id_hash: &[u8; 32]) -> bool;
    /// Health of a route as the data plane sees it; `None` if nothing has the name.
    fn route_health(&self, served_name: &str) -> Option<RouteHealth>;
    /// All routes that lead to an engine now, by served name.
    fn live_routes(&self) -> Vec<LiveRoute>;
}

/// Requests to the gateway's own inference API.
pub trait Inference: Send + Sync + 'static {
    /// Sends a request as a client would, and returns the answer once its head is there. The request ends when the body of
    /// the answer is dropped. The URI is a path.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<BodyParts>, ApiError>>;
}

/// The body of an answer, part by part as it comes.
pub type BodyParts = BoxStream<'static, io::Result<Bytes>>;

/// A route to an engine.
#[derive(Debug, Clone)]
pub struct LiveRoute {
    pub served_name: String,
    /// The engine's address; the first one if it has several.
    pub url: String,
    pub task: Task,
    /// `None`: entered by hand.
    pub engine: Option<EngineKind>,
    /// Context length in tokens: as the engine reports it, else as the record says.
    pub max_model_len: Option<i64>,
}

/// What the data plane knows of limits.
pub trait Allowances: Send + Sync + 'static {
    /// Returns the limits of keys that have none of their own.
    fn defaults(&self) -> Limits;
    /// Returns how much of its budgets a holder has spent. `None` if nothing is counted for it: it has no limit, can't
    /// be used, or is not known yet.
    fn spent(&self, holder: LimitHolder) -> Option<Spent>;
    /// Returns what is left of all limits of a holder, as far as this gateway knows; empty for a holder without limits.
    fn standing(&self, holder: LimitHolder) -> Standing;
}

/// An owner of limits: a key, a user or an organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitHolder {
    Key(KeyId),
    User(UserId),
    Org(OrgId),
}

/// Tokens of the current day and month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub day: u64,
    pub month: u64,
}
