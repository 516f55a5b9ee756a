//! The immutable snapshot that requests are decided on. The control plane builds a new one after each change and
//! puts it into force with [`crate::Shared::publish`]; requests that run keep the entries that they started with.
//!
//! For the builder: [`KeyState`], [`Breaker`](crate::breaker::Breaker) and [`Upstream`] hold what must survive a rebuild.
//! Reuse the `Arc` of the previous snapshot for the same key id, the same container or registry entry; make new ones
//! otherwise.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    identity::Session,
    key::Scopes,
    model::{EngineKind, State, Task},
    net::IpList,
};

use crate::{
    limits::{Account, AccountState, Charges, KeyState, Refusals, Subject},
    record::stats::ModelStats,
    request::defaults::RequestDefaults,
    upstream::engine::Upstream,
};

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
    /// What bounds its refusals; carried over from the snapshot before.
    pub refusals: Refusals,
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
            refusals: self.refusals.clone(),
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
    /// What bounds the refusals of all sessions of the user together; carried over from the snapshot before.
    pub refusals: Refusals,
    /// It was ended: set by [`crate::Shared::publish`], and carried over from the snapshot before for the same session.
    pub ended: Arc<AtomicBool>,
}

impl SessionEntry {
    /// Whether the session has not ended at `now`.
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
