//! What the data-plane threads share with the rest of the program: the catalog, the clock, the counters, and what bounds
//! all threads together.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use gantry_domain::Clock;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::{
    catalog::Catalog,
    connection::places::Places,
    limits::{Limiter, Refusals},
    record::{counters::Counters, stats::Stats},
    request::{body_memory::BodyMemory, wait_queue::WaitQueue},
};

/// Shared by all data-plane threads and the control plane; everything in it is read and written without waiting.
#[derive(Debug)]
pub struct Shared {
    /// Keys, sessions and routes. Replaced by [`Shared::publish`], which calls the requests that wait for a route.
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
    pub(crate) connections: Places,
    /// The refusals of callers who can't be told apart, see [`crate::Config::allow_all_keys`].
    pub(crate) refusals: Refusals,
    /// The disk of the spool is almost full: what is left is for requests that are served.
    pub(crate) disk_low: AtomicBool,
    /// The address that the data plane listens on, with the real port, once it does.
    pub addr: OnceLock<SocketAddr>,
    /// Identifies this run of the data plane in the spool, once it runs.
    pub boot: OnceLock<Uuid>,
    /// Notified when callers of the previous catalog may ask for nothing more.
    ended: watch::Sender<()>,
}

impl Shared {
    /// Makes what all threads share, with the first `catalog`.
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
            connections: Places::default(),
            refusals: Refusals::default(),
            disk_low: AtomicBool::new(false),
            addr: OnceLock::new(),
            boot: OnceLock::new(),
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
