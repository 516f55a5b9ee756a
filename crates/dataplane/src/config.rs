//! Settings of the data plane at start, and the types by which the rest of the program plugs into it.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gantry_domain::{net::IpList, web::Web};
use http::HeaderValue;
use http_body_util::combinators::UnsyncBoxBody;

use crate::record::{access::AccessLog, spans::Spans};

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body of an answer of [`Other`].
pub type OtherBody = UnsyncBoxBody<Bytes, BoxError>;

/// The other end of the connection, which may be a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub addr: SocketAddr,
}

/// Serves every path that is not of the data plane (admin API, web UI, sign-in). It is called on a data-plane thread:
/// the callee moves its work to another runtime and returns a future that only waits for it. The request carries
/// `x-request-id`; all headers of the answer are the callee's, `x-request-id` included.
pub type Other = Arc<
    dyn Fn(http::Request<hyper::body::Incoming>, Peer) -> BoxFuture<'static, http::Response<OtherBody>>
        + Send
        + Sync,
>;

/// Checks the signature of a `svc_session` cookie's value and gives the SHA-256 of the session id, by which
/// [`crate::Catalog::sessions`] is keyed; `None` if the signature does not hold.
pub type SessionCheck = Arc<dyn Fn(&str) -> Option<[u8; 32]> + Send + Sync>;

/// Data that requests may make engines load.
#[derive(Debug, Clone, Default)]
pub struct Media {
    /// Hosts from which engines may fetch what requests refer to; `*` is all.
    pub hosts: Vec<String>,
    /// Requests may carry tensors.
    pub tensors: bool,
}

/// All settings that the data plane gets at start. Later changes come through [`crate::Catalog`].
pub struct Config {
    /// Address to listen on; port 0 takes a free one, see [`crate::DataPlane::addr`].
    pub listen: SocketAddr,
    /// Sockets that are bound and listen already (socket activation); when not empty, `listen` is not bound. If there
    /// are fewer than `threads`, the threads share them. The program that passed them in keeps them open: at the end,
    /// connections that wait in them are left to the next gateway.
    pub listeners: Vec<TcpListener>,
    /// Threads, each with a runtime, listener, upstream connections and spool segment of its own; at least 1.
    pub threads: usize,
    /// Largest request body in bytes.
    pub max_body: usize,
    /// What all request bodies together may take in memory, in bytes; at least `max_body`.
    pub body_memory: usize,
    pub media: Media,
    /// Client connections at the same time. Beyond that, the one that has been silent the longest without any request
    /// is closed, or else the new one.
    pub max_connections: usize,
    /// Client connections of one address (IPv6: of one /64) at the same time. Trusted proxies are exempt; 0 is without
    /// limit.
    pub max_connections_per_address: u32,
    /// Whether `max_connections_per_address` holds for loopback addresses too, from which a proxy or the operator's
    /// programs come.
    pub count_loopback: bool,
    /// Time for a request body to arrive completely.
    pub body_timeout: Duration,
    /// Time for a request head to arrive, and for the first one of a connection to begin.
    pub header_timeout: Duration,
    /// How long a connection is kept after an answer. While half of `max_connections` or more are open: as long as a
    /// request head may take.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of its answer before its connection is closed.
    pub write_timeout: Duration,
    /// Time for a TCP connection to the engine.
    pub connect_timeout: Duration,
    /// How long an upstream connection may lie idle; below the engines' own limit (uvicorn closes after 5 s).
    pub pool_idle: Duration,
    /// How long everything is still served after `/readyz` has announced the end, so that a load balancer can turn
    /// away.
    pub leave_grace: Duration,
    /// Proxies whose `X-Forwarded-For` counts.
    pub trusted_proxies: IpList,
    /// Host names and origins besides the gateway's own.
    pub web: Web,
    /// Verifies the session cookie.
    pub session: SessionCheck,
    /// The `Via` of requests to engines, different for each gateway. A request that comes back with it is refused: an
    /// entry of the registry leads back here.
    pub via: HeaderValue,
    /// Development only: no authentication, all scopes. Requests with a known key are still metered for it.
    pub allow_all_keys: bool,
    /// Directory of the usage spool, on a local disk; created if missing.
    pub spool_dir: PathBuf,
    /// Bytes after which a spool segment is closed.
    pub spool_segment_bytes: u64,
    /// Age after which a spool segment that is not empty is closed.
    pub spool_segment_age: Duration,
    /// One line for each request.
    pub access: Option<AccessLog>,
    /// One span for each request to `/v1`.
    pub spans: Option<Spans>,
    /// Flag of the traces that begin here, if no spans are made.
    pub trace_sampled: bool,
    /// Version that `/health` shows.
    pub version: String,
}

impl Default for Config {
    /// One thread on a free loopback port, no sessions, spool in `./spool`.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            listeners: Vec::new(),
            threads: 1,
            max_body: 32 << 20,
            body_memory: 512 << 20,
            media: Media::default(),
            max_connections: usize::MAX,
            max_connections_per_address: 0,
            count_loopback: false,
            body_timeout: Duration::from_mins(1),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(3),
            write_timeout: Duration::from_mins(1),
            connect_timeout: Duration::from_secs(5),
            pool_idle: Duration::from_secs(4),
            leave_grace: Duration::ZERO,
            trusted_proxies: IpList::default(),
            web: Web::default(),
            session: Arc::new(|_| None),
            via: HeaderValue::from_static("1.1 gantry"),
            allow_all_keys: false,
            spool_dir: PathBuf::from("spool"),
            spool_segment_bytes: 16 << 20,
            spool_segment_age: Duration::from_mins(1),
            access: None,
            spans: None,
            trace_sampled: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("threads", &self.threads)
            .field("spool_dir", &self.spool_dir)
            .finish_non_exhaustive()
    }
}
