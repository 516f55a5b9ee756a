//! An engine that answers: its address, connections to it, and what is known of its health.

use std::{
    fmt,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gantry_connect::{ConnectError, Connector, HttpUrl, Stream};
use gantry_domain::{endpoint::Endpoint, listeners::Listeners};
use http::{HeaderValue, Uri};
use hyper_util::rt::TokioIo;

use crate::upstream::{
    breaker::{self, Breaker},
    keeping::Keeping,
    port_owner,
    progress::Progress,
};

/// Default of [`Upstream::with_stall_floor`].
const STALL_FLOOR: Duration = Duration::from_secs(30);

/// Whether an engine gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamHealth {
    Ok,
    /// Requests wait and it sends nothing, for longer than it usually does: it gets no new ones until it sends again.
    Stalled {
        /// When its last byte came, or when the first of those requests began to wait.
        since: Instant,
    },
    /// It failed repeatedly: its breaker is not closed.
    Failing {
        /// The trial runs.
        half_open: bool,
        /// Only few callers are kept away, see [`crate::breaker`].
        for_some: bool,
    },
}

/// One engine that answers. Lives as long as its container (or registry entry) stays the same.
pub struct Upstream {
    /// Unique per model and container, never used twice: pooled connections belong to it, and are closed when no
    /// route leads to it any more.
    pub id: u64,
    pub breaker: Arc<Breaker>,
    /// When it last sent something.
    pub progress: Arc<Progress>,
    /// Requests that it is working on.
    pub in_flight: AtomicU32,
    /// It refused the gateway's internal key at the last request: the model needs to be applied.
    pub key_mismatch: AtomicBool,
    /// vLLM said that the model has no chat template: chats go to its completions, see `fallback`.
    pub lacks_chat_template: AtomicBool,
    /// Its last probe failed: other engines of the route go first.
    pub ailing: AtomicBool,
    /// What it does with its connections after an answer.
    pub(crate) keeping: Keeping,
    url: String,
    address: Address,
    connector: Arc<Connector>,
    host: HeaderValue,
    auth: Option<HeaderValue>,
    /// `None`: who listens is not checked.
    guard: Option<PortGuard>,
    uris: [Uri; Endpoint::ALL.len()],
    models_uri: Uri,
}

/// Who may listen on a port of 127.0.0.1.
struct PortGuard {
    port: u16,
    /// The users who may own the socket.
    allowed: Arc<Listeners>,
}

/// Where an engine listens.
struct Address {
    tls: bool,
    /// A name or an address without brackets.
    host: String,
    port: u16,
}

/// Why an [`Upstream`] can't be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidUpstream {
    /// Not of the form `http[s]://host[:port][/base]`.
    Url,
    /// The key has characters that a header can't carry.
    Key,
}

impl fmt::Display for InvalidUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => "the upstream's URL is not of the form `http[s]://host[:port][/base]`",
            Self::Key => "the upstream's key has characters that a header can't carry",
        })
    }
}

impl std::error::Error for InvalidUpstream {}

impl Upstream {
    /// `url` is `http[s]://host[:port][/base]`; endpoint paths (`/v1/…`) are appended to it, and a base that ends in
    /// `/v1` is not doubled. `key` is sent as `Authorization: Bearer`; `None` sends no such header.
    ///
    /// # Errors
    /// See [`InvalidUpstream`].
    pub fn new(
        id: u64,
        url: &str,
        key: Option<&str>,
        breaker: Arc<Breaker>,
    ) -> Result<Self, InvalidUpstream> {
        let parsed = HttpUrl::parse(url).ok_or(InvalidUpstream::Url)?;
        let base = parsed.base();
        let base = base.strip_suffix("/v1").unwrap_or(base);
        let mut uris: [Uri; Endpoint::ALL.len()] = Default::default();
        for (slot, endpoint) in uris.iter_mut().zip(Endpoint::ALL) {
            let path = format!("{base}{}", endpoint.path());
            *slot = path.parse().map_err(|_| InvalidUpstream::Url)?;
        }
        let models_uri = format!("{base}/v1/models").parse().map_err(|_| InvalidUpstream::Url)?;
        let bearer = |key| {
            let mut value =
                HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| InvalidUpstream::Key)?;
            value.set_sensitive(true);
            Ok(value)
        };
        Ok(Self {
            id,
            breaker,
            progress: Arc::new(Progress::new(STALL_FLOOR, Instant::now())),
            in_flight: AtomicU32::new(0),
            key_mismatch: AtomicBool::new(false),
            lacks_chat_template: AtomicBool::new(false),
            ailing: AtomicBool::new(false),
            keeping: Keeping::new(Instant::now()),
            url: url.to_owned(),
            address: Address { tls: parsed.is_tls(), host: parsed.host().to_owned(), port: parsed.port() },
            connector: Arc::default(),
            host: HeaderValue::try_from(parsed.authority()).map_err(|_| InvalidUpstream::Url)?,
            auth: key.map(bearer).transpose()?,
            guard: None,
            uris,
            models_uri,
        })
    }

    /// Sets the connector that makes its connections; it has the trusted certificates in memory.
    #[must_use]
    pub fn with_connector(self, connector: Arc<Connector>) -> Self {
        Self { connector, ..self }
    }

    /// Protects an engine on loopback, where any account of the machine can listen: nothing is sent unless one of
    /// `allowed` owns the listening socket.
    #[must_use]
    pub fn guarded(mut self, allowed: Arc<Listeners>) -> Self {
        let local = self.address.host.parse().is_ok_and(|it: Ipv4Addr| it == Ipv4Addr::LOCALHOST);
        self.guard = local.then_some(PortGuard { port: self.address.port, allowed });
        self
    }

    /// Silence of up to `floor` while requests wait is never taken for a stall.
    #[must_use]
    pub fn with_stall_floor(mut self, floor: Duration) -> Self {
        self.progress = Arc::new(Progress::new(floor, Instant::now()));
        self
    }

    /// Sets the served name of its model, for the log.
    #[must_use]
    pub fn with_name(self, served_name: &str) -> Self {
        self.progress.named(served_name);
        self
    }

    /// Whether it gets requests now.
    pub fn health(&self, now: Instant) -> UpstreamHealth {
        let breaker = self.breaker.snapshot(now);
        if breaker.state != breaker::State::Closed {
            let half_open = breaker.state == breaker::State::HalfOpen;
            return UpstreamHealth::Failing { half_open, for_some: breaker.for_some };
        }
        match self.progress.quarantined(now) {
            Some(since) => UpstreamHealth::Stalled { since },
            None => UpstreamHealth::Ok,
        }
    }

    /// Returns how long it has been silent while requests wait, if that is too long.
    pub fn stalled(&self, now: Instant) -> Option<Duration> {
        self.progress.stalled(now)
    }

    /// As it was given to [`Upstream::new`].
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes a connection to it, and checks that the engine is at the other end, if the upstream has a list of allowed
    /// listeners.
    ///
    /// # Errors
    /// It can't be reached, or can't prove its name, or another program has its port.
    pub async fn connect(&self) -> Result<TokioIo<Stream>, ConnectError> {
        let Address { tls, host, port } = &self.address;
        let stream = self.connector.connect(*tls, host, *port).await?;
        // Before a byte is sent: the engine may have ended, and another program may have taken its port.
        if let Some(PortGuard { port, allowed }) = &self.guard {
            let own = stream.inner().tcp().local_addr().map_err(ConnectError::Io)?;
            port_owner::check(*port, own, allowed).map_err(ConnectError::Io)?;
        }
        Ok(stream)
    }

    /// Returns its value for the `Host` header.
    pub fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Where it lists its models.
    pub fn models_uri(&self) -> &Uri {
        &self.models_uri
    }

    /// What the engine wants as `Authorization`.
    pub fn auth(&self) -> Option<&HeaderValue> {
        self.auth.as_ref()
    }

    pub(crate) fn uri(&self, endpoint: Endpoint) -> &Uri {
        &self.uris[endpoint as usize]
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("id", &self.id)
            .field("url", &self.url)
            .field("in_flight", &self.in_flight.load(Relaxed))
            .finish_non_exhaustive()
    }
}
