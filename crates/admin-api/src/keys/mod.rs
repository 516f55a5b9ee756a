//! `/admin/keys`, and the forms and views that `/auth/keys` shares.

mod form;

use std::time::Duration;

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, KeyId, OrgId, Timestamp, UserId,
    audit::Action,
    key::{ApiKey, KeySettings, KeyStatus, Token, TokenKind},
    limit::{LimitMode, Limits},
    schema::{Rfc3339, secret, word},
    view,
};
use gantry_store::{KeyColumn, KeyFilter, NewKey, Sort, Tx};
use serde_json::json;

use self::form::{ChangedKey, NewKeyForm};
pub(crate) use self::form::{OwnKeyForm, ServedNames, words};
use crate::{
    App,
    app::Parts,
    audit::record,
    caller::Caller,
    error::{Outcome, Problem},
    limits::Budgets,
    operation::{Body, Created, Deleted, Id, IfMatch, Listed, Operation, Page, Query, Search, query},
    ports::LimitHolder,
    users,
};

/// Most keys of one holder that are kept in memory: those that are not revoked, and not expired for more than 30 days.
/// All of them are read again with each change.
const MAX_OWN: i64 = 100;
const MAX_OF_ORG: i64 = 10_000;
/// Most keys that users make for themselves within [`A_DAY`], revoked ones too. Revoked keys stay, because usage is
/// shown by their names, so without this limit anybody could fill the database with them.
const MAX_OWN_A_DAY: i64 = 200;
const A_DAY: Duration = Duration::from_hours(24);

/// Who makes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The key's own user.
    Holder,
    Administrator,
}

view! {
    /// A key as lists show it.
    #[derive(Debug)]
    pub(crate) struct KeyView: "Key" {
        id: KeyId,
        name: String,
        /// The first characters of the token.
        prefix: String,
        scopes: String as word("^(chat|completions|embeddings)(,(completions|embeddings))*$"),
        models: Option<Vec<String>>,
        org_id: OrgId,
        org_name: String,
        user_id: Option<UserId>,
        username: Option<String>,
        ip_allowlist: Vec<String>,
        expires_at: Option<Rfc3339>,
        created_at: Rfc3339,
        last_used_at: Option<Rfc3339>,
        revoked_at: Option<Rfc3339>,
        status: KeyStatus,
        limits: Limits => part,
        limit_mode: LimitMode,
        /// The limits in force: with the gateway's defaults, under the limits of the user and the organisation.
        effective_limits: Limits,
        budget: Option<Budgets>,
        /// For `If-Match`: it changes with everything of the key that can be changed.
        revision: String,
    }
}

impl KeyView {
    pub(crate) fn new(app: &App, key: &ApiKey) -> Self {
        let now = app.clock.now();
        let KeySettings { name, scopes, models, ip_allowlist, expires_at, limits, limit_mode } =
            key.settings.clone();
        let time = |at: Option<Timestamp>| at.map(Rfc3339);
        let (scopes, ip_allowlist) = (scopes.to_string(), ip_allowlist.entries());
        let (expires_at, revoked_at) = (time(expires_at), time(key.revoked_at));
        let record = json!([name, scopes, models, ip_allowlist, expires_at, revoked_at, limits, limit_mode]);
        Self {
            id: key.id,
            name,
            prefix: key.prefix.clone(),
            scopes,
            models,
            org_id: key.org_id,
            org_name: key.org_name.clone(),
            user_id: key.user_id,
            username: key.username.clone(),
            ip_allowlist,
            expires_at,
            created_at: key.created_at.into(),
            last_used_at: time(key.last_used_at),
            revoked_at,
            status: key.status(now),
            limits,
            limit_mode,
            effective_limits: limits
                .or(app.allowances.defaults())
                .capped_by(key.user_limits)
                .capped_by(key.org_limits),
            budget: Budgets::new(&limits, app.allowances.spent(LimitHolder::Key(key.id))),
            revision: app.accounts.cookies.revision(&record),
        }
    }

    /// Reads the budgets again after a change was published: only from then on is counted what a new budget is for.
    fn published(mut self, app: &App) -> Self {
        self.budget = Budgets::new(&self.limits, app.allowances.spent(LimitHolder::Key(self.id)));
        self
    }
}

view! {
    /// A new key: the only answer that has the token.
    #[derive(Debug)]
    pub(crate) struct NewKeyView: "NewKey" {
        key: KeyView => part,
        /// Shown in this answer only.
        token: String as secret(word("^gty_[0-9A-Za-z]{46}$")),
    }
}

query! {
    pub(crate) struct KeyQuery {
        page: Page,
        sort: Sort<KeyColumn>,
        /// Only those of this organisation.
        org_id: Option<OrgId>,
        /// Only those of this user.
        user_id: Option<UserId>,
        /// Only those that have this status now.
        status: Option<KeyStatus>,
        /// Part of the name or of the prefix.
        q: Option<Search>,
    }
}

/// Stores a new key and makes it usable before it returns.
pub(crate) async fn create_key(
    app: &App,
    caller: &Caller,
    maker: Maker,
    settings: KeySettings,
    org_id: OrgId,
    user_id: Option<UserId>,
) -> Outcome<NewKeyView> {
    let token = Token::generate(TokenKind::Key, &mut rand::rng());
    let new =
        NewKey { settings, prefix: token.shown().to_owned(), token_hash: token.hash(), org_id, user_id };
    let now = app.clock.now();
    let mut tx = app.store.write().await?;
    // If two keys are made at once, the later one must count the earlier one.
    tx.exclusive().await?;
    if maker == Maker::Holder && tx.count_usable_keys(None, user_id, now).await? >= MAX_OWN {
        return Err(Parts::invalid_state(format!("you have {MAX_OWN} keys: revoke some first")));
    }
    if let (Maker::Holder, Some(user)) = (maker, user_id)
        && tx.count_keys_made(user, now.minus(A_DAY), now).await? >= MAX_OWN_A_DAY
    {
        return Err(Parts::invalid_state(format!(
            "{MAX_OWN_A_DAY} keys were made for you within a day: make the next one tomorrow, or ask an administrator"
        )));
    }
    if tx.count_usable_keys(Some(org_id), None, now).await? >= MAX_OF_ORG {
        return Err(Parts::invalid_state(format!(
            "the organisation has {MAX_OF_ORG} keys: revoke some first"
        )));
    }
    let key = KeyView::new(app, &tx.insert_key(&new, now).await?);
    tx.audit(&caller.did(Action::KeyCreate, key.id).created(record(&key)), now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(NewKeyView { key: key.published(app), token: token.expose().to_owned() })
}

pub(crate) const LIST: Operation = Operation::new("listKeys", "List keys");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(KeyQuery { page, sort, org_id, user_id, status, q }): Query<KeyQuery>,
) -> Outcome<Listed<KeyView>> {
    if org_id.is_some_and(|org| !caller.sees(org)) {
        return Ok(Listed(Vec::new(), 0));
    }
    let filter = KeyFilter {
        org_id: caller.scope().or(org_id),
        user_id,
        status: status.map(|it| (it, app.clock.now())),
        q: q.map(|it| it.0),
        scope_user: None,
    };
    listed(&app, &filter, sort, page).await
}

/// Returns the keys that the filter lets through.
pub(crate) async fn listed(
    app: &App,
    filter: &KeyFilter,
    sort: Sort<KeyColumn>,
    page: Page,
) -> Outcome<Listed<KeyView>> {
    let (keys, total) = app.store.read().await?.keys(filter, sort, page.limit, page.offset).await?;
    Ok(Listed(keys.iter().map(|key| KeyView::new(app, key)).collect(), total))
}

pub(crate) const CREATE: Operation = Operation::new("createKey", "Create a key")
    .about(
        "The key is for a user (`user_id`), or for an organisation as a whole (`org_id`). Without both it belongs to the \
         caller's organisation, and not to the caller: its usage counts for no user (`user_id` of the answer is `null`). \
         Give your own `user_id`, or use `POST /auth/keys`, for a key of your own. Nobody may make a key for a user of a \
         higher role than their own. The token is shown in this answer only.",
    )
    .errors(&[ErrorCode::InvalidState]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Body(form): Body<NewKeyForm>,
) -> Outcome<Created<NewKeyView>> {
    let mut tx = app.store.read().await?;
    let user = match form.user_id {
        None => None,
        Some(id) => {
            let user = tx.user_in(id, caller.scope()).await?;
            let user = user.ok_or_else(|| Parts::not_found_in("user_id", "user", id))?;
            users::within_reach(&caller, &user)?;
            Some(user)
        }
    };
    let own = user.as_ref().map_or(caller.user.org_id, |it| it.org_id);
    let org = form.org_id.unwrap_or(own);
    if !caller.sees(org) || tx.org(org).await?.is_none() {
        return Err(Parts::not_found_in("org_id", "organisation", org));
    }
    if user.is_some() && org != own {
        return Err(Problem::invalid("org_id", "the user belongs to another organisation"));
    }
    drop(tx);
    let user_id = form.user_id;
    Ok(Created(create_key(&app, &caller, Maker::Administrator, form.settings(), org, user_id).await?))
}

pub(crate) const CHANGE: Operation = Operation::new("changeKey", "Change a key").about(
    "Everything but the key's token and holder can be changed. A field that is left out stays as it is. A revoked key \
     can't be changed, nor can the key of a user of a higher role than the caller's.",
);

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    seen: IfMatch,
    Body(form): Body<ChangedKey>,
) -> Outcome<Json<KeyView>> {
    let now = app.clock.now();
    let mut tx = app.store.write().await?;
    // Settings are replaced as a whole: of two changes at once the later one must have seen the earlier one.
    tx.exclusive().await?;
    let key = tx.key_in(KeyId(id), caller.scope(), None).await?;
    let key = key.ok_or_else(|| Parts::not_found("key", id))?;
    holder_within_reach(&mut tx, &caller, &key).await?;
    if key.revoked_at.is_some() {
        return Err(Parts::invalid_state("the key is revoked: make a new one"));
    }
    let old = KeyView::new(&app, &key);
    seen.check(&old.revision)?;
    let settings = form.of(key.settings);
    let key = tx.update_key(KeyId(id), &settings).await?.ok_or_else(ApiError::internal)?;
    let view = KeyView::new(&app, &key);
    let entry = caller.did(Action::KeyChange, id).changed(&record(&old), &record(&view));
    if entry.says_nothing() {
        tx.rollback().await?;
        return Ok(Json(old));
    }
    tx.audit(&entry, now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Json(view.published(&app)))
}

pub(crate) const REVOKE: Operation = Operation::new("revokeKey", "Revoke a key").about(
    "The key stops working at once and stays in the list. Nobody may revoke the key of a user of a higher role than their \
     own.",
);

pub(crate) async fn revoke(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Deleted<KeyId>> {
    let mut tx = app.store.write().await?;
    // If two requests come at once, the second one finds the key revoked.
    tx.exclusive().await?;
    let key = tx.key_in(KeyId(id), caller.scope(), None).await?;
    let key = key.ok_or_else(|| Parts::not_found("key", id))?;
    holder_within_reach(&mut tx, &caller, &key).await?;
    revoke_key(&app, tx, &caller, &key).await?;
    Ok(Deleted(KeyId(id)))
}

/// Checks that the caller may touch the keys of this key's holder. A key without a holder is the organisation's.
async fn holder_within_reach(tx: &mut Tx, caller: &Caller, key: &ApiKey) -> Outcome<()> {
    let Some(id) = key.user_id else { return Ok(()) };
    // The key goes with its holder, in the same transaction.
    let holder = tx.user(id).await?.ok_or_else(ApiError::internal)?;
    users::within_reach(caller, &holder)
}

/// Revokes `key`, which was read in `tx`, and commits `tx`, which is [`Tx::exclusive`]. Idempotent: a revoked key stays
/// as it is.
pub(crate) async fn revoke_key(app: &App, mut tx: Tx, caller: &Caller, key: &ApiKey) -> Outcome<()> {
    if key.revoked_at.is_some() {
        return Ok(());
    }
    let now = app.clock.now();
    let revoked = tx.revoke_key(key.id, now).await?.ok_or_else(ApiError::internal)?;
    let (old, new) = (KeyView::new(app, key), KeyView::new(app, &revoked));
    // The key's prefix is noted, so that one can tell which key this was.
    let entry = caller.did(Action::KeyRevoke, key.id).changed(&record(&old), &record(&new));
    tx.audit(&entry.noting("prefix", key.prefix.as_str()), now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(())
}
