//! Enters into the catalog who may send requests: keys, sessions, and the accounts of their limits.

use std::{collections::HashMap, sync::Arc, time::Instant};

use gantry_dataplane::{
    Catalog, KeyEntry, SessionEntry,
    limits::{Account, AccountState, Charges, KeyState, Subject, nanos},
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
    let states: HashMap<_, _> = before.keys.values().map(|it| (it.id, &it.state)).collect();

    let mut books = Books { control, now: control.clock.now(), begun: false };
    let state_of = |holder| {
        let known = before.states.get(&holder).map(Arc::clone);
        known.unwrap_or_else(|| Arc::new(AccountState::new(holder)))
    };
    for (id, limits) in orgs {
        let state = state_of(Subject::Org(id));
        if let Some(account) = books.account(limits, LimitMode::Enforce, &state) {
            next.accounts.insert(account.subject, account);
        }
        next.states.insert(state.subject(), state);
    }
    // A user's own limits bind the keys and the sessions together. The gateway's defaults bind each key for itself, and
    // the sessions of a user together. Both accounts share one state, and keys are not charged for what the defaults
    // add.
    let mut whole: HashMap<UserId, Arc<Account>> = HashMap::new();
    for (id, (limits, signed_in)) in users(&keys, &sessions) {
        let state = state_of(Subject::User(id));
        let of_all = books.account(limits, LimitMode::Enforce, &state);
        let of_sessions = limits.or(control.config.default_limits);
        let of_sessions =
            if signed_in { books.account(of_sessions, LimitMode::Enforce, &state) } else { None };
        if let Some(account) = of_sessions.as_ref().or(of_all.as_ref()) {
            next.accounts.insert(account.subject, Arc::clone(account));
        }
        whole.extend(of_all.map(|it| (id, it)));
        next.states.insert(state.subject(), state);
    }
    for key in keys {
        let known = states.get(&key.id).map(|it| Arc::clone(it));
        let state = known.unwrap_or_else(|| Arc::new(KeyState::new(key.id)));
        let limits = key.settings.limits.or(control.config.default_limits);
        let account = books.account(limits, key.settings.limit_mode, &state.account);
        let user = key.user_id.and_then(|it| whole.get(&it));
        let charges = Charges::new([account.as_ref(), user, next.accounts.get(&Subject::Org(key.org_id))]);
        next.accounts.extend(account.map(|it| (it.subject, it)));
        next.keys.insert(key.token_hash, Arc::new(key_entry(key, charges, state)));
    }
    for (session, user) in sessions {
        let ended = before.sessions.get(&session.id_hash).map(|it| Arc::clone(&it.ended));
        let entry = SessionEntry {
            ended: ended.unwrap_or_default(),
            user_id: user.id,
            org_id: user.org_id,
            created_at: session.created_at,
            expires_at: session.expires_at,
            models: user.models.map(Vec::into_boxed_slice),
            charges: Charges::new([
                None,
                next.accounts.get(&Subject::User(user.id)),
                next.accounts.get(&Subject::Org(user.org_id)),
            ]),
            refusals: next
                .states
                .get(&Subject::User(user.id))
                .map(|it| Arc::clone(&it.refusals))
                .unwrap_or_default(),
        };
        next.sessions.insert(session.id_hash, Arc::new(entry));
    }
    // The state of holders that have no limit just now is kept until their usage is earned back. Otherwise signing out
    // and in again would give a fresh limit.
    let now = nanos(Instant::now());
    for (holder, state) in &before.states {
        if !next.states.contains_key(holder) && !state.is_at_rest(now) {
            next.states.insert(*holder, Arc::clone(state));
        }
    }
    books.begun
}

/// Opens the accounts of a catalog.
struct Books<'a> {
    control: &'a Control,
    now: Timestamp,
    /// Whether one of the accounts has a budget that was not there before.
    begun: bool,
}

impl Books<'_> {
    fn account(
        &mut self,
        limits: Limits,
        mode: LimitMode,
        state: &Arc<AccountState>,
    ) -> Option<Arc<Account>> {
        let has_budget = limits.budget_tokens_day.is_some() || limits.budget_tokens_month.is_some();
        self.begun |= state.spendings.track(has_budget, self.now);
        let mode = match self.control.config.limit_mode {
            LimitMode::Shadow => LimitMode::Shadow,
            LimitMode::Enforce => mode,
        };
        Account::new(state.subject(), limits, mode, state)
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

fn key_entry(key: ApiKey, charges: Option<Arc<Charges>>, state: Arc<KeyState>) -> KeyEntry {
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
        state,
    }
}
