//! What all limits of the process share: counters, and the connection to other gateways that share the limits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    account::{Account, LimitKind},
    state::AccountState,
};

/// If the reports on which a request is refused are older than this, new ones are asked for.
const DOUBT: Duration = Duration::from_millis(200);
/// Most accounts that wait to be exchanged; beyond that, the next request puts an account on the list again.
const WAITING: usize = 16_384;

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

    /// Whether the exchange with other gateways worked the last time.
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
    pub(super) fn shares(&self, state: &AccountState, now: u64) -> u64 {
        match &self.link {
            Some(link) if !link.is_up() || !state.is_fresh(now) => link.gateways().into(),
            _ => 1,
        }
    }

    /// Returns [`Limiter::shares`] for a decision, and counts decisions that are made without the shared state.
    pub(super) fn shares_to_decide(&self, account: &Account, now: u64) -> u64 {
        if self.link.as_ref().is_some_and(|it| !it.is_up()) && account.is_shared() {
            self.counters.fallbacks.fetch_add(1, Relaxed);
        }
        self.shares(&account.state, now)
    }

    pub(super) fn allowed(&self, kind: LimitKind) {
        self.counters.allowed[kind as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// Asks for new reports after a refusal, if the last ones are older than [`DOUBT`]; not each time, as many clients
    /// retry at once.
    pub(super) fn doubted(&self, account: &Account, now: u64) {
        if self.is_linked() && account.state.is_older(now, DOUBT) {
            self.changed(account);
        }
    }

    /// Puts the account on the list of those that are exchanged soon.
    pub(super) fn changed(&self, account: &Account) {
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
