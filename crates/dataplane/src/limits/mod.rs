//! Limits of keys and organisations. Atomics only, nothing waits: a request is decided on what this process knows.
//!
//! - [`Account`]: a key, a user or an organisation with its limits, and the [`AccountState`] that outlives catalogs
//! - [`Charges`]: the accounts that a caller's requests are charged to; callers without limits have none, and pay nothing
//! - [`Ticket`]: what a request took of them, settled when it ends
//! - [`GatewayLink`]: the connection to the other gateways, if there are any (`gantry_control::share` is at its other end)
//!
//! A place among the running requests is taken as soon as the caller is known; everything else is taken when the body
//! has been read. Then requests a minute are counted, and tokens a minute are reserved by a bounded estimate, which is
//! settled by the engine's count when the request ends. Budgets are counted at the end of a request; so they may be
//! exceeded by what the requests in flight use.
//!
//! With a link every decision is still local: the state that gateways share is updated in the background, some
//! milliseconds later. Until then another gateway may admit requests for which nothing is left of the limit. None of
//! that is forgiven: it is a debt that delays later requests. Over any time, all gateways together admit at most the
//! limit plus, once, what arrived within one exchange. If this gateway has no news of an account within [`FRESH`], it
//! decides on a share: the limit divided by the number of gateways, but at least one.

mod admit;
mod headers;
mod spending;
mod standing;
mod state;

use std::{
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    limit::{LimitMode, Limits},
};
use http::HeaderValue;
use tokio::sync::mpsc;

pub use admit::Ticket;
pub(crate) use admit::{Demand, enter};
pub(crate) use headers::write as write_headers;
pub use spending::Marks;
pub use state::{AccountState, Report, View};

/// How long the other gateways' reports are used. They are asked again each second while there are requests.
pub const FRESH: Duration = Duration::from_millis(2_500);
/// If the reports on which a request is refused are older than this, new ones are asked for.
const DOUBT: Duration = Duration::from_millis(200);
/// Most accounts that wait to be exchanged; beyond that, the next request puts an account on the list again.
const WAITING: usize = 16_384;

/// What has limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Key(KeyId),
    Org(OrgId),
    /// A user, in all sessions together; and with all keys, too, if an administrator limited the user.
    User(UserId),
}

impl Subject {
    /// For messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Org(_) => "organisation",
            Self::User(_) => "user",
        }
    }
}

/// `k7`, `o7` or `u7`: its name in the state that gateways share.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "k{}", id.0),
            Self::Org(id) => write!(f, "o{}", id.0),
            Self::User(id) => write!(f, "u{}", id.0),
        }
    }
}

/// The kind of a limit; the label of its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    Requests,
    Tokens,
    Concurrency,
    Streams,
    Budget,
}

impl LimitKind {
    pub const ALL: [Self; 5] = [Self::Requests, Self::Tokens, Self::Concurrency, Self::Streams, Self::Budget];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Concurrency => "concurrency",
            Self::Streams => "streams",
            Self::Budget => "budget",
        }
    }
}

/// A key, a user or an organisation that has limits.
#[derive(Debug)]
pub struct Account {
    pub subject: Subject,
    pub limits: Limits,
    pub mode: LimitMode,
    pub state: Arc<AccountState>,
    rpm: Option<Rate>,
    tpm: Option<Rate>,
}

/// A limit "a minute" with its header value, which is made once.
#[derive(Debug)]
struct Rate {
    per_minute: u64,
    shown: HeaderValue,
}

impl Rate {
    fn new(limit: i64) -> Self {
        let per_minute = limit.unsigned_abs();
        Self { per_minute, shown: per_minute.into() }
    }
}

impl Account {
    /// `None` if there is no limit. The limits that there are must be positive.
    pub fn new(
        subject: Subject,
        limits: Limits,
        mode: LimitMode,
        state: &Arc<AccountState>,
    ) -> Option<Arc<Self>> {
        (!limits.is_none()).then(|| {
            Arc::new(Self {
                subject,
                limits,
                mode,
                state: Arc::clone(state),
                rpm: limits.rpm_limit.map(Rate::new),
                tpm: limits.tpm_limit.map(Rate::new),
            })
        })
    }

    fn enforces(&self) -> bool {
        self.mode == LimitMode::Enforce
    }

    /// Returns whether the account has limits that gateways share with each other; budgets they read from the database.
    fn is_shared(&self) -> bool {
        self.rpm.is_some() || self.tpm.is_some() || self.counts_running()
    }

    /// Whether the number of its running requests matters.
    fn counts_running(&self) -> bool {
        self.limits.max_concurrency.is_some() || self.limits.max_streams.is_some()
    }
}

/// All accounts that a caller's requests are charged to: the key, its user or the user who is signed in, and the
/// organisation, as far as they have limits.
#[derive(Debug)]
pub struct Charges(Box<[Arc<Account>]>);

impl Charges {
    /// `None` if there is nothing to be charged.
    pub fn new(accounts: [Option<&Arc<Account>>; ACCOUNTS]) -> Option<Arc<Self>> {
        let accounts: Box<[_]> = accounts.into_iter().flatten().map(Arc::clone).collect();
        (!accounts.is_empty()).then(|| Arc::new(Self(accounts)))
    }
}

/// Most accounts that a request is charged to: those of a key, a user and an organisation.
const ACCOUNTS: usize = 3;

/// The state of a key; it outlives the catalog snapshots.
#[derive(Debug)]
pub struct KeyState {
    pub account: Arc<AccountState>,
    /// It was revoked, or its subject disabled or deleted. It is boxed to have a place in memory of its own: streams
    /// look at it often, and the other fields change with each request.
    pub(crate) ended: Box<AtomicBool>,
    /// Milliseconds since the epoch; 0 if it was not used since start.
    last_used: AtomicI64,
}

impl KeyState {
    pub fn new(key: KeyId) -> Self {
        Self {
            account: Arc::new(AccountState::new(Subject::Key(key))),
            ended: Box::default(),
            last_used: AtomicI64::new(0),
        }
    }

    /// When a request last passed authentication, if it did since start; for the batched `last_used_at`.
    pub fn last_used(&self) -> Option<Timestamp> {
        Some(self.last_used.load(Relaxed)).filter(|ms| *ms != 0).map(Timestamp)
    }

    pub(crate) fn touch(&self, now: Timestamp) {
        self.last_used.store(now.0, Relaxed);
    }
}

/// What all limits of the process share.
#[derive(Debug, Default)]
pub struct Limiter {
    pub counters: LimitCounters,
    /// `None`: this gateway is the only one, or acts as if it were.
    pub link: Option<GatewayLink>,
}

/// Counters since start, for Prometheus; arrays are in the order of [`LimitKind::ALL`].
#[derive(Debug, Default)]
pub struct LimitCounters {
    /// Requests that a limit let through.
    pub allowed: [AtomicU64; LimitKind::ALL.len()],
    pub refused: [AtomicU64; LimitKind::ALL.len()],
    /// Requests that would have been refused, but for the shadow mode.
    pub shadow: [AtomicU64; LimitKind::ALL.len()],
    /// Decisions on this gateway's share, because the shared state could not be reached.
    pub fallbacks: AtomicU64,
    /// Exchanges with the shared state that failed.
    pub link_failures: AtomicU64,
    /// Exchanges that succeeded.
    pub exchanges: AtomicU64,
}

/// The connection to the gateways that share the limits. Requests only ever write to it; a task in the background does
/// the rest.
#[derive(Debug)]
pub struct GatewayLink {
    changed: mpsc::Sender<Arc<AccountState>>,
    up: AtomicBool,
    /// There was an exchange, or an attempt at one.
    tried: AtomicBool,
    gateways: AtomicU32,
}

impl GatewayLink {
    /// Makes the link, and the receiver of changed accounts for the task that exchanges them.
    pub fn new() -> (Self, mpsc::Receiver<Arc<AccountState>>) {
        let (changed, receiver) = mpsc::channel(WAITING);
        let link = Self {
            changed,
            up: AtomicBool::new(false),
            tried: AtomicBool::new(false),
            gateways: AtomicU32::new(1),
        };
        (link, receiver)
    }

    /// Notes the outcome of an exchange: the number of gateways, or `None` if it failed. Returns whether the link has
    /// just come up or gone down, or was tried for the first time.
    pub fn exchanged(&self, gateways: Option<u32>) -> bool {
        if let Some(n) = gateways {
            self.gateways.store(n.max(1), Relaxed);
        }
        let was_up = self.up.swap(gateways.is_some(), Relaxed);
        !self.tried.swap(true, Relaxed) || was_up != gateways.is_some()
    }

    pub fn is_up(&self) -> bool {
        self.up.load(Relaxed)
    }

    /// Returns how many gateways there are, as far as is known.
    pub fn gateways(&self) -> u32 {
        self.gateways.load(Relaxed)
    }
}

impl Limiter {
    /// Returns into how many shares the account's limits are divided now: 1 if this gateway knows what the others did.
    fn shares(&self, state: &AccountState, now: u64) -> u64 {
        match &self.link {
            Some(link) if !link.is_up() || !state.is_fresh(now) => link.gateways().into(),
            _ => 1,
        }
    }

    /// Returns [`Limiter::shares`] for a decision, and counts decisions that are made without the shared state.
    fn shares_to_decide(&self, account: &Account, now: u64) -> u64 {
        if self.link.as_ref().is_some_and(|it| !it.is_up()) && account.is_shared() {
            self.counters.fallbacks.fetch_add(1, Relaxed);
        }
        self.shares(&account.state, now)
    }

    fn allowed(&self, kind: LimitKind) {
        self.counters.allowed[kind as usize].fetch_add(1, Relaxed);
    }

    fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// Asks for new reports after a refusal, if the last ones are older than [`DOUBT`]; not each time, as many clients
    /// retry at once.
    fn doubted(&self, account: &Account, now: u64) {
        if self.is_linked() && account.state.is_older(now, DOUBT) {
            self.changed(account);
        }
    }

    /// Puts the account on the list of those that are exchanged soon.
    fn changed(&self, account: &Account) {
        let state = &account.state;
        if let Some(link) = &self.link
            && account.is_shared()
            && state.mark_changed()
            && link.changed.try_send(Arc::clone(state)).is_err()
        {
            state.unmark_changed();
        }
    }
}

/// Returns the nanoseconds since the first call; all limits use this time.
pub fn nanos(now: Instant) -> u64 {
    static BORN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(now.saturating_duration_since(*BORN).as_nanos()).unwrap_or(u64::MAX)
}
