//! The immutable snapshot that requests are decided on. The control plane builds a new one after each change and
//! puts it into force with [`crate::Shared::publish`]; requests that run keep the entries that they started with.
//!
//! For the builder: [`KeyState`], [`Breaker`] and [`Upstream`] hold what must survive a rebuild. Reuse the `Arc` of
//! the previous snapshot for the same key id, the same container or registry entry; make new ones otherwise.

use std::{
    collections::HashMap,
    fmt,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gantry_connect::{ConnectError, Connector, HttpUrl, Stream};
use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    identity::Session,
    key::Scopes,
    listeners::Listeners,
    model::{EngineKind, State, Task},
    net::IpList,
};
use http::{HeaderValue, Uri};
use hyper_util::rt::TokioIo;

use crate::{
    limits::{Account, AccountState, Charges, KeyState, Subject, refusals::RefusalQuota},
    record::stats::ModelStats,
    request::defaults::RequestDefaults,
    upstream::{
        breaker::{self, Breaker},
        port_owner,
        progress::Progress,
    },
};

/// Default of [`Upstream::with_stall_floor`].
const STALL_FLOOR: Duration = Duration::from_secs(30);

/// Everything a request is decided on. Revoked keys, keys of disabled holders, ended sessions and archived models
/// are simply absent.
#[derive(Debug, Default)]
pub struct Catalog {
    /// By SHA-256 of the whole token, see [`gantry_domain::key::hash`].
    pub keys: HashMap<[u8; 32], Arc<KeyEntry>>,
    /// By SHA-256 of the session id.
    pub sessions: HashMap<[u8; 32], Arc<SessionEntry>>,
    /// The accounts of all holders that have limits.
    pub accounts: HashMap<Subject, Arc<Account>>,
    /// The account states of organisations, and of users who are signed in; they are carried over from snapshot to
    /// snapshot.
    pub states: HashMap<Subject, Arc<AccountState>>,
    /// By served name.
    pub routes: HashMap<String, Arc<Route>>,
}

/// An API key that may be used.
#[derive(Debug)]
pub struct KeyEntry {
    pub id: KeyId,
    /// First characters of the token, for usage rows.
    pub prefix: Box<str>,
    /// `None` for a key of the organisation itself.
    pub user_id: Option<UserId>,
    pub org_id: OrgId,
    pub scopes: Scopes,
    /// Served names that it may call, by its own list and its user's; `None` is all.
    pub models: Option<Box<[String]>>,
    /// Empty is everywhere.
    pub ip_allowlist: IpList,
    pub expires_at: Option<Timestamp>,
    /// Its own limits, and those of its user and its organisation.
    pub charges: Option<Arc<Charges>>,
    /// Carried over from the snapshot before for the same key id.
    pub state: Arc<KeyState>,
}

impl KeyEntry {
    /// A copy with all scopes, for [`crate::Config::allow_all_keys`]. The identity is kept for metering.
    pub(crate) fn with_everything_allowed(&self) -> Self {
        Self {
            id: self.id,
            prefix: self.prefix.clone(),
            user_id: self.user_id,
            org_id: self.org_id,
            scopes: Scopes::ALL,
            models: None,
            ip_allowlist: IpList::default(),
            expires_at: None,
            charges: self.charges.clone(),
            state: Arc::clone(&self.state),
        }
    }

    /// Whether the key may call the model of this served name.
    pub fn may_call(&self, served_name: &str) -> bool {
        is_among(self.models.as_deref(), served_name)
    }
}

fn is_among(names: Option<&[String]>, served_name: &str) -> bool {
    names.is_none_or(|names| names.iter().any(|it| it == served_name))
}

/// A signed-in user.
#[derive(Debug)]
pub struct SessionEntry {
    pub user_id: UserId,
    pub org_id: OrgId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// Served names that the user may call; `None` is all.
    pub models: Option<Box<[String]>>,
    /// The limits of the user and of the organisation.
    pub charges: Option<Arc<Charges>>,
    /// The account of the user, for all their sessions together.
    pub refusals: Arc<RefusalQuota>,
    /// It was ended: set by [`crate::Shared::publish`], and carried over from the snapshot before for the same session.
    pub ended: Arc<AtomicBool>,
}

impl SessionEntry {
    pub fn is_current(&self, now: Timestamp) -> bool {
        Session::is_current(self.created_at, self.expires_at, now)
    }

    /// Whether the user may call the model of this served name.
    pub fn may_call(&self, served_name: &str) -> bool {
        is_among(self.models.as_deref(), served_name)
    }
}

/// A served name and where it leads.
#[derive(Debug)]
pub struct Route {
    pub served_name: String,
    /// The model that this is an adapter of: the engine is the same, and is looked after under that name.
    pub adapter_of: Option<String>,
    pub task: Task,
    /// `None` for an upstream of the registry.
    pub engine: Option<EngineKind>,
    /// The engine's name for the model, if it is not the served name; requests to the engine carry it.
    pub upstream_model: Option<Box<str>>,
    /// The engine is Gantry's simulator: each answer says so.
    pub simulator: bool,
    pub target: RouteTarget,
    /// Longest time from sending the request to the head of the answer.
    pub request_timeout: Duration,
    /// Longest time between two pieces of an answer.
    pub stream_idle_timeout: Duration,
    pub created: Timestamp,
    /// Context length in tokens, if known.
    pub max_model_len: Option<i64>,
    /// Parameters for requests that do not carry them.
    pub request_defaults: Option<Arc<RequestDefaults>>,
    /// Counters of its requests, see [`crate::record::stats::Stats::of`].
    pub stats: Arc<ModelStats>,
}

impl Route {
    /// Returns the engines' name for the model.
    pub fn name_there(&self) -> &str {
        self.upstream_model.as_deref().unwrap_or(&self.served_name)
    }

    /// Returns whether requests wait for the model of this route, and of `next`, until the same time.
    pub(crate) fn is_returning_like(&self, next: &Self) -> bool {
        match (&self.target, &next.target) {
            (RouteTarget::Returning { until }, RouteTarget::Returning { until: next_until }) => {
                until == next_until && self.task == next.task
            }
            _ => false,
        }
    }
}

/// Whether a route can be called now.
#[derive(Debug, Clone)]
pub enum RouteTarget {
    Up(Arc<Upstream>),
    /// Several engines that serve the same, [`gantry_domain::net::MAX_ENGINE_URLS`] at most: each request goes to one of them.
    AnyOf(Box<[Arc<Upstream>]>),
    /// Being applied: its engine stops and another starts. Requests wait for it until then, see
    /// [`crate::Shared::publish`].
    Returning {
        /// When it should be back at the latest; requests fail after it.
        until: Timestamp,
    },
    /// Its engine listens on the loopback of another machine, where another gateway leads to it.
    Elsewhere,
    /// Known, but not running.
    Down {
        state: State,
    },
}

impl RouteTarget {
    /// The engines that requests may go to now.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        match self {
            Self::Up(upstream) => std::slice::from_ref(upstream),
            Self::AnyOf(all) => all,
            Self::Returning { .. } | Self::Elsewhere | Self::Down { .. } => &[],
        }
    }
}

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
        /// Only few callers are kept away, see [`crate::upstream::breaker`].
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
    url: String,
    address: Address,
    connector: Arc<Connector>,
    host: HeaderValue,
    auth: Option<HeaderValue>,
    /// Port on 127.0.0.1, and the users who may own the socket that listens there. `None`: not checked.
    guard: Option<(u16, Arc<Listeners>)>,
    uris: [Uri; Endpoint::ALL.len()],
    models_uri: Uri,
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
        self.guard = local.then_some((self.address.port, allowed));
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
        if let Some((port, allowed)) = &self.guard {
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
