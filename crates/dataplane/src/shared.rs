//! What the data-plane threads share with the rest of the program: the catalog, the clock and the counters.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use arc_swap::ArcSwap;
use gantry_domain::{Clock, usage::Outcome};
use tokio::sync::{Notify, watch};

use crate::{
    catalog::Catalog,
    connection::counts::ConnectionCounts,
    limits::{Limiter, refusals::RefusalQuota},
    record::stats::{Fine, Stats},
    request::{body_memory::BodyMemory, wait_queue::WaitQueue},
};

/// Shared by all data-plane threads and the control plane; everything in it is read and written without waiting.
#[derive(Debug)]
pub struct Shared {
    /// Keys, sessions and routes. Replaced by [`Shared::publish`], which wakes the requests that wait for a route.
    pub catalog: ArcSwap<Catalog>,
    pub clock: Clock,
    pub counters: Counters,
    /// Counters by model; routes hold theirs.
    pub stats: Stats,
    pub limiter: Limiter,
    pub body_memory: BodyMemory,
    /// Notified when new rows lie in the spool: at once after 256 of them, else within half a second.
    pub usage_written: Notify,
    /// Requests that wait for a model that is being applied.
    pub(crate) waiting: WaitQueue,
    /// Client connections.
    pub(crate) connections: ConnectionCounts,
    /// The refusals of callers who can't be told apart, see [`crate::Config::allow_all_keys`].
    pub(crate) refusals: Arc<RefusalQuota>,
    /// The disk of the spool is almost full: what is left is for requests that are served.
    pub(crate) disk_low: AtomicBool,
    /// Notified when callers of the previous catalog may ask for nothing more.
    ended: watch::Sender<()>,
}

impl Shared {
    pub fn new(catalog: Catalog, clock: Clock) -> Self {
        Self {
            catalog: ArcSwap::from_pointee(catalog),
            clock,
            counters: Counters::default(),
            stats: Stats::default(),
            limiter: Limiter::default(),
            body_memory: BodyMemory::default(),
            usage_written: Notify::new(),
            waiting: WaitQueue::default(),
            connections: ConnectionCounts::default(),
            refusals: Arc::default(),
            disk_low: AtomicBool::new(false),
            ended: watch::Sender::new(()),
        }
    }

    /// Sets limits that are shared with other gateways.
    #[must_use]
    pub fn with_limiter(self, limiter: Limiter) -> Self {
        Self { limiter, ..self }
    }

    /// Puts a new catalog into force, calls the requests that wait for a model about which it says something new, and ends
    /// the streams of keys and sessions that are not in it any more. Streams of those that have expired may finish, as they
    /// began in time.
    pub fn publish(&self, catalog: Catalog) {
        let next = Arc::new(catalog);
        let before = self.catalog.swap(Arc::clone(&next));
        let now = self.clock.now();
        let mut any = false;
        let mut end = |flag: &AtomicBool| any |= !flag.swap(true, Relaxed);
        for (hash, key) in &before.keys {
            if !next.keys.contains_key(hash) && key.expires_at.is_none_or(|at| now < at) {
                end(&key.state.ended);
            }
        }
        for (hash, session) in &before.sessions {
            if !next.sessions.contains_key(hash) && session.is_current(now) {
                end(&session.ended);
            }
        }
        if any {
            self.ended.send_replace(());
        }
        // For those that wait still, nothing is new.
        let waits_on = |name: &str| {
            let (before, next) = (before.routes.get(name), next.routes.get(name));
            before.zip(next).is_some_and(|(before, next)| before.is_returning_like(next))
        };
        self.waiting.free(|name| if waits_on(name) { 0 } else { usize::MAX });
    }

    /// Returns a receiver that is notified when streams have to check whether their callers were ended.
    pub(crate) fn endings(&self) -> watch::Receiver<()> {
        self.ended.subscribe()
    }

    /// Returns how many requests wait for a model to come back, see [`crate::RouteTarget::Returning`].
    pub fn waiting(&self, served_name: &str) -> usize {
        self.waiting.requests(served_name)
    }
}

/// Why a request was sent once more. In each case the engine can't have begun it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No connection could be made.
    Unreachable,
    /// The connection closed before anything of the request was written.
    Closed,
    /// The engine could not be reached, and another one of the route got it.
    Elsewhere,
}

impl Retry {
    pub const ALL: [Self; 3] = [Self::Unreachable, Self::Closed, Self::Elsewhere];

    /// The label of its metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Closed => "closed",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// Counters since start, for Prometheus. Gauges are marked as such.
#[derive(Debug, Default)]
pub struct Counters {
    /// Client connections accepted.
    pub connections: AtomicU64,
    /// Gauge: client connections open.
    pub connections_open: AtomicU64,
    /// Connections that were closed at once, because the limit of all connections was reached.
    pub connections_refused_full: AtomicU64,
    /// Connections that were closed at once, because the limit of their address was reached.
    pub connections_refused_address: AtomicU64,
    /// Connections that had brought no request and made room for others.
    pub connections_displaced: AtomicU64,
    /// Inference requests that passed authentication, by [`Outcome`] in the order of [`Outcome::ALL`].
    pub requests: [AtomicU64; Outcome::ALL.len()],
    /// Inference requests refused before they had a usage row (401 and 403).
    pub refused: AtomicU64,
    /// Gauge: inference requests that passed authentication and have not ended.
    pub in_flight: AtomicU64,
    /// Gauge: requests in flight whose answer is streaming.
    pub streams: AtomicU64,
    /// Tokens of all rows.
    pub prompt_tokens: AtomicU64,
    pub completion_tokens: AtomicU64,
    /// Rows whose counts the gateway estimated.
    pub estimated: AtomicU64,
    /// Connections made to engines.
    pub upstream_connects: AtomicU64,
    /// Requests sent once more, by [`Retry`] in the order of [`Retry::ALL`].
    pub upstream_retries: [AtomicU64; Retry::ALL.len()],
    /// Records that could not be written to the spool at first.
    pub spool_errors: AtomicU64,
    /// Refused requests that have no row, because the disk of the spool is almost full.
    pub refusals_dropped: AtomicU64,
    /// Usage rows that the shipper brought to the database.
    pub usage_shipped: AtomicU64,
    /// Batches of rows that the database did not take.
    pub usage_failures: AtomicU64,
    /// Shipped rows that the database had already.
    pub usage_replayed: AtomicU64,
    /// Damaged places in the spool.
    pub spool_torn: AtomicU64,
    /// Gauge: bytes of the spool that are not in the database yet.
    pub spool_backlog_bytes: AtomicU64,
    /// Panics caught in request handlers.
    pub panics: AtomicU64,
    /// Time of whole requests.
    pub latency: Fine,
    /// Time to the first byte of streamed answers.
    pub ttft: Fine,
}

impl Counters {
    /// Returns the number of all inference requests that ended with a row.
    pub fn requests_total(&self) -> u64 {
        self.requests.iter().map(|it| it.load(Relaxed)).sum()
    }

    /// Returns the number of requests that ended with `outcome`.
    pub fn requests_with(&self, outcome: Outcome) -> u64 {
        self.requests[outcome as usize].load(Relaxed)
    }
}
