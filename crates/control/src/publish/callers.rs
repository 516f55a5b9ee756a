//! Enters into the catalog who may send requests: keys, sessions, and the accounts of their limits.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use gantry_dataplane::{
    Catalog, KeyEntry, SessionEntry,
    limits::{Account, AccountState, Charges, KeyState, RefusalQuota, Refusals, Subject, nanos},
};
use gantry_domain::{
    OrgId, Timestamp, UserId,
    identity::{Session, User},
    key::ApiKey,
    limit::{LimitMode, Limits},
};

use crate::Control;

/// The keys and sessions that may send requests, and the organisations' limits.
pub(super) struct Callers {
    pub(super) orgs: Vec<(OrgId, Limits)>,
    pub(super) keys: Vec<ApiKey>,
    pub(super) sessions: Vec<(Session, User)>,
}

/// Enters who may send requests, and the limits of each. Returns whether an account has a budget that was not there
/// before.
pub(super) fn enter(
    control: &Control,
    before: &Catalog,
    next: &mut Catalog,
    Callers { orgs, keys, sessions }: Callers,
) -> bool {
    let mut books = Books { control, before, now: control.clock.now(), begun: false };
    for (id, limits) in orgs {
        books.org(next, id, limits);
    }
    let users = books.users(next, &keys, &sessions);
    let mut bounds = Bounds::of(before);
    let states: HashMap<_, _> = before.keys.values().map(|it| (it.id, &it.state)).collect();
    for key in keys {
        let known = states.get(&key.id).map(|it| Arc::clone(it));
        let state = known.unwrap_or_else(|| Arc::new(KeyState::new(key.id)));
        let own = Arc::clone(&state.account.refusals);
        let refusals = bounds.for_caller(own, key.user_id, key.org_id);
        books.key(next, key, (state, refusals), &users);
    }
    for (session, user) in sessions {
        let hash = session.id_hash;
        let ended = before.sessions.get(&hash).map(|it| Arc::clone(&it.ended)).unwrap_or_default();
        let own = next.states.get(&Subject::User(user.id)).map(|it| Arc::clone(&it.refusals));
        let refusals = bounds.for_caller(own.unwrap_or_default(), Some(user.id), user.org_id);
        next.sessions.insert(hash, Arc::new(session_entry(next, &session, user, (ended, refusals))));
    }
    // The state of holders that have no limit just now is kept until their usage is earned back. Otherwise signing out
    // and in again would give a fresh limit.
    let now = nanos(Instant::now());
    for (subject, state) in &before.states {
        if !next.states.contains_key(subject) && !state.is_at_rest(now) {
            next.states.insert(*subject, Arc::clone(state));
        }
    }
    books.begun
}

/// Opens the accounts of a catalog.
struct Books<'a> {
    control: &'a Control,
    before: &'a Catalog,
    now: Timestamp,
    /// Whether one of the accounts has a budget that was not there before.
    begun: bool,
}

impl Books<'_> {
    fn state(&self, subject: Subject) -> Arc<AccountState> {
        let known = self.before.states.get(&subject).map(Arc::clone);
        known.unwrap_or_else(|| Arc::new(AccountState::new(subject)))
    }

    fn org(&mut self, next: &mut Catalog, id: OrgId, limits: Limits) {
        let state = self.state(Subject::Org(id));
        if let Some(account) = self.account(limits, LimitMode::Enforce, &state) {
            next.accounts.insert(account.subject, account);
        }
        next.states.insert(state.subject(), state);
    }

    /// Enters the accounts of users, and returns those that bind their keys. A user's own limits bind the keys and the
    /// sessions together. The gateway's defaults bind each key for itself, and the sessions of a user together. Both
    /// accounts share one state, and keys are not charged for what the defaults add.
    fn users(
        &mut self,
        next: &mut Catalog,
        keys: &[ApiKey],
        sessions: &[(Session, User)],
    ) -> HashMap<UserId, Arc<Account>> {
        let mut whole = HashMap::new();
        for (id, (limits, signed_in)) in users(keys, sessions) {
            let state = self.state(Subject::User(id));
            let of_all = self.account(limits, LimitMode::Enforce, &state);
            let of_sessions = limits.or(self.control.config.limits.for_keys());
            let of_sessions =
                if signed_in { self.account(of_sessions, LimitMode::Enforce, &state) } else { None };
            if let Some(account) = of_sessions.as_ref().or(of_all.as_ref()) {
                next.accounts.insert(account.subject, Arc::clone(account));
            }
            whole.extend(of_all.map(|it| (id, it)));
            next.states.insert(state.subject(), state);
        }
        whole
    }

    fn key(
        &mut self,
        next: &mut Catalog,
        key: ApiKey,
        (state, refusals): (Arc<KeyState>, Refusals),
        users: &HashMap<UserId, Arc<Account>>,
    ) {
        let limits = key.settings.limits.or(self.control.config.limits.for_keys());
        let account = self.account(limits, key.settings.limit_mode, &state.account);
        let user = key.user_id.and_then(|it| users.get(&it));
        let charges = Charges::new([account.as_ref(), user, next.accounts.get(&Subject::Org(key.org_id))]);
        next.accounts.extend(account.map(|it| (it.subject, it)));
        next.keys.insert(key.token_hash, Arc::new(key_entry(key, charges, (state, refusals))));
    }

    fn account(
        &mut self,
        limits: Limits,
        mode: LimitMode,
        state: &Arc<AccountState>,
    ) -> Option<Arc<Account>> {
        let has_budget = limits.budget_tokens_day.is_some() || limits.budget_tokens_month.is_some();
        self.begun |= state.spendings.track(has_budget, self.now);
        let mode = match self.control.config.limits.rate_limit_mode {
            LimitMode::Shadow => LimitMode::Shadow,
            LimitMode::Enforce => mode,
        };
        Account::new(state.subject(), limits, mode, state)
    }
}

/// What bounds the refusals of users and organisations, for all their keys and sessions together. The catalog before has it with
/// their keys and sessions.
struct Bounds(HashMap<Subject, Arc<RefusalQuota>>);

impl Bounds {
    fn of(before: &Catalog) -> Self {
        let keys = before.keys.values().map(|it| (it.user_id, it.org_id, &it.refusals));
        let sessions = before.sessions.values().map(|it| (Some(it.user_id), it.org_id, &it.refusals));
        let mut all = HashMap::new();
        for (user, org, refusals) in keys.chain(sessions) {
            let user = user.map(Subject::User).zip(refusals.user.as_ref());
            let org = Some(Subject::Org(org)).zip(refusals.org.as_ref());
            for (subject, quota) in user.into_iter().chain(org) {
                all.entry(subject).or_insert_with(|| Arc::clone(quota));
            }
        }
        Self(all)
    }

    fn for_caller(&mut self, own: Arc<RefusalQuota>, user: Option<UserId>, org: OrgId) -> Refusals {
        let mut quota = |subject| Arc::clone(self.0.entry(subject).or_default());
        Refusals { own, user: user.map(|it| quota(Subject::User(it))), org: Some(quota(Subject::Org(org))) }
    }
}

/// Returns the limits of users who have some or are signed in, and whether they are signed in.
fn users(keys: &[ApiKey], sessions: &[(Session, User)]) -> HashMap<UserId, (Limits, bool)> {
    let signed_in = sessions.iter().map(|(_, user)| (user.id, (user.limits, true)));
    let mut users: HashMap<_, _> = signed_in.collect();
    for key in keys.iter().filter(|it| !it.user_limits.is_none()) {
        if let Some(id) = key.user_id {
            users.entry(id).or_insert((key.user_limits, false));
        }
    }
    users
}

fn key_entry(
    key: ApiKey,
    charges: Option<Arc<Charges>>,
    (state, refusals): (Arc<KeyState>, Refusals),
) -> KeyEntry {
    let models = key.callable().map(Vec::into_boxed_slice);
    KeyEntry {
        id: key.id,
        prefix: key.prefix.into(),
        user_id: key.user_id,
        org_id: key.org_id,
        scopes: key.settings.scopes,
        models,
        ip_allowlist: key.settings.ip_allowlist,
        expires_at: key.settings.expires_at,
        charges,
        refusals,
        state,
    }
}

/// The accounts of its user and organisation are in `catalog` already.
fn session_entry(
    catalog: &Catalog,
    session: &Session,
    user: User,
    (ended, refusals): (Arc<AtomicBool>, Refusals),
) -> SessionEntry {
    let (subject, org) = (Subject::User(user.id), Subject::Org(user.org_id));
    SessionEntry {
        ended,
        user_id: user.id,
        org_id: user.org_id,
        created_at: session.created_at,
        expires_at: session.expires_at,
        models: user.models.map(Vec::into_boxed_slice),
        charges: Charges::new([None, catalog.accounts.get(&subject), catalog.accounts.get(&org)]),
        refusals,
    }
}
