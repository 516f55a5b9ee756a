//! Whose limits a request is charged to.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
};

use gantry_domain::{
    KeyId, Timestamp,
    limit::{LimitMode, Limits},
};
use http::HeaderValue;

use super::{state::AccountState, subject::Subject};

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

    /// Returns the word in metrics and errors.
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
    pub(super) rpm: Option<Rate>,
    pub(super) tpm: Option<Rate>,
}

/// A limit "a minute" with its header value, which is made once.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) per_minute: u64,
    pub(super) shown: HeaderValue,
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

    pub(super) fn enforces(&self) -> bool {
        self.mode == LimitMode::Enforce
    }

    /// Returns whether the account has limits that gateways share with each other; budgets they read from the database.
    pub(super) fn is_shared(&self) -> bool {
        self.rpm.is_some() || self.tpm.is_some() || self.counts_running()
    }

    /// Whether the number of its running requests matters.
    pub(super) fn counts_running(&self) -> bool {
        self.limits.max_concurrency.is_some() || self.limits.max_streams.is_some()
    }
}

/// All accounts that a caller's requests are charged to: the key, its user or the user who is signed in, and the
/// organisation, as far as they have limits.
#[derive(Debug)]
pub struct Charges(pub(super) Box<[Arc<Account>]>);

impl Charges {
    /// `None` if there is nothing to be charged.
    pub fn new(accounts: [Option<&Arc<Account>>; ACCOUNTS]) -> Option<Arc<Self>> {
        let accounts: Box<[_]> = accounts.into_iter().flatten().map(Arc::clone).collect();
        (!accounts.is_empty()).then(|| Arc::new(Self(accounts)))
    }
}

/// Most accounts that a request is charged to: those of a key, a user and an organisation.
pub(super) const ACCOUNTS: usize = 3;

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
    /// Makes the state of a key that has used nothing.
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
