//! Who may ask, with what each may use up: keys, sessions, and the accounts of their limits.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use gantry_dataplane::{
    Catalog, KeyEntry, SessionEntry,
    limits::{Account, AccountState, Guard, Holder, KeyState, nanos},
};
use gantry_domain::{
    OrgId, Timestamp,
    identity::{Session, User},
    key::ApiKey,
    limit::{LimitMode, Limits},
};

use crate::Control;

/// Who may ask.
pub(super) struct Callers {
    pub(super) orgs: Vec<(OrgId, Limits)>,
    pub(super) keys: Vec<ApiKey>,
    pub(super) sessions: Vec<(Session, User)>,
}

/// Enters who may ask, with what he may use up. Whether an account has a budget that was not there before.
pub(super) fn enter(
    control: &Control,
    before: &Catalog,
    next: &mut Catalog,
    Callers { orgs, keys, sessions }: Callers,
) -> bool {
    let states: HashMap<_, _> = before.keys.values().map(|it| (it.id, &it.state)).collect();

    let mut books = Books { control, now: control.clock.now(), begun: false };
    let orgs = orgs.into_iter().map(|(id, limits)| (Holder::Org(id), limits));
    let users: HashSet<_> = sessions.iter().map(|(_, user)| Holder::User(user.id)).collect();
    let users = users.into_iter().map(|it| (it, control.config.default_limits));
    for (holder, limits) in orgs.chain(users) {
        let known = before.states.get(&holder).map(Arc::clone);
        let state = known.unwrap_or_else(|| Arc::new(AccountState::new(holder)));
        if let Some(account) = books.account(limits, LimitMode::Enforce, &state) {
            next.accounts.insert(account.holder, account);
        }
        next.states.insert(holder, state);
    }
    for key in keys {
        let known = states.get(&key.id).map(|it| Arc::clone(it));
        let state = known.unwrap_or_else(|| Arc::new(KeyState::new(key.id)));
        let limits = key.settings.limits.or(control.config.default_limits);
        let account = books.account(limits, key.settings.limit_mode, &state.account);
        let guard = Guard::new(account.as_ref(), next.accounts.get(&Holder::Org(key.org_id)));
        next.accounts.extend(account.map(|it| (it.holder, it)));
        next.keys.insert(key.token_hash, Arc::new(key_entry(key, guard, state)));
    }
    for (session, user) in sessions {
        let ended = before.sessions.get(&session.id_hash).map(|it| Arc::clone(&it.ended));
        let entry = SessionEntry {
            ended: ended.unwrap_or_default(),
            user_id: user.id,
            org_id: user.org_id,
            created_at: session.created_at,
            expires_at: session.expires_at,
            guard: Guard::new(
                next.accounts.get(&Holder::User(user.id)),
                next.accounts.get(&Holder::Org(user.org_id)),
            ),
        };
        next.sessions.insert(session.id_hash, Arc::new(entry));
    }
    // Of those without a limit just now, what they used is kept until it is earned back: nobody gets a fresh limit by
    // signing out and in again.
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
    /// One of them has a budget that was not there before.
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
        Account::new(state.holder(), limits, mode, state)
    }
}

fn key_entry(key: ApiKey, guard: Option<Arc<Guard>>, state: Arc<KeyState>) -> KeyEntry {
    KeyEntry {
        id: key.id,
        prefix: key.prefix.into(),
        user_id: key.user_id,
        org_id: key.org_id,
        scopes: key.settings.scopes,
        models: key.settings.models.map(Vec::into_boxed_slice),
        ip_allowlist: key.settings.ip_allowlist,
        expires_at: key.settings.expires_at,
        guard,
        state,
    }
}
