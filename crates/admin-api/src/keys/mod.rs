//! `/admin/keys`, and the forms and views that `/auth/keys` shares.

use std::time::Duration;

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::{
    ApiError, KeyId, OrgId, Timestamp, UserId,
    audit::Action,
    key::{ApiKey, KeySettings, KeyStatus, Scopes, Token, TokenKind},
    limit::{LimitMode, Limits},
    net::IpList,
    words::either,
};
use gantry_store::{KeyColumn, KeyFilter, NewKey, Sort, Tx};
use serde::Serialize;
use serde_json::Value;

use crate::{
    App,
    app::{LimitHolder, Parts},
    audit::record,
    error::{Outcome, Problem},
    extract::{Created, Fields, Id, Listed, Object, Params, deleted, read},
    limits::{self, Budgets, LimitChange},
    policy::Caller,
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
/// Most served names of a key that users make for themselves, and most bytes that the names may have together.
pub(crate) const MAX_OWN_MODELS: usize = 200;
const MAX_OWN_MODELS_BYTES: usize = 16 << 10;

/// Who makes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The key's own user.
    Holder,
    Administrator,
}

/// A key as lists show it.
#[derive(Debug, Serialize)]
pub(crate) struct KeyView {
    id: KeyId,
    name: String,
    prefix: String,
    scopes: String,
    models: Option<Vec<String>>,
    org_id: OrgId,
    org_name: String,
    user_id: Option<UserId>,
    username: Option<String>,
    ip_allowlist: Vec<String>,
    expires_at: Option<String>,
    created_at: String,
    last_used_at: Option<String>,
    revoked_at: Option<String>,
    status: KeyStatus,
    #[serde(flatten)]
    limits: Limits,
    limit_mode: LimitMode,
    /// The limits in force: with the gateway's defaults, under the limits of the user and the organisation.
    effective_limits: Limits,
    budget: Option<Budgets>,
}

impl KeyView {
    pub(crate) fn new(app: &App, key: &ApiKey) -> Self {
        let now = app.clock.now();
        let KeySettings { name, scopes, models, ip_allowlist, expires_at, limits, limit_mode } =
            key.settings.clone();
        let time = |at: Option<Timestamp>| at.map(Timestamp::rfc3339);
        Self {
            id: key.id,
            name,
            prefix: key.prefix.clone(),
            scopes: scopes.to_string(),
            models,
            org_id: key.org_id,
            org_name: key.org_name.clone(),
            user_id: key.user_id,
            username: key.username.clone(),
            ip_allowlist: ip_allowlist.entries(),
            expires_at: time(expires_at),
            created_at: key.created_at.rfc3339(),
            last_used_at: time(key.last_used_at),
            revoked_at: time(key.revoked_at),
            status: key.status(now),
            limits,
            limit_mode,
            effective_limits: limits
                .or(app.allowances.defaults())
                .capped_by(key.user_limits)
                .capped_by(key.org_limits),
            budget: Budgets::new(&limits, app.allowances.spent(LimitHolder::Key(key.id))),
        }
    }

    /// Reads the budgets again after a change was published: only from then on is counted what a new budget is for.
    fn published(mut self, app: &App) -> Self {
        self.budget = Budgets::new(&self.limits, app.allowances.spent(LimitHolder::Key(self.id)));
        self
    }
}

/// A new key: the only answer that has the token.
#[derive(Debug, Serialize)]
pub(crate) struct NewKeyView {
    #[serde(flatten)]
    key: KeyView,
    token: String,
}

/// The body of create and change requests, read.
pub(crate) struct KeyForm {
    settings: KeySettings,
    org_id: Option<OrgId>,
    user_id: Option<UserId>,
}

impl KeyForm {
    pub(crate) fn create(body: Object, now: Timestamp) -> Outcome<Self> {
        let mut fields = Fields::new(body);
        let org_id = fields.optional("org_id", "the id of an organisation", read::id).map(OrgId);
        let user_id = fields.optional("user_id", "the id of a user", read::id).map(UserId);
        // As in all create requests, `null` means the same as an absent field.
        fields.drop_null("scopes");
        let settings = settings(&mut fields, KeySettings::default(), now);
        fields.finish()?;
        Ok(Self { settings, org_id, user_id })
    }

    fn change(body: Object, base: KeySettings, now: Timestamp) -> Outcome<KeySettings> {
        let mut fields = Fields::new(body);
        let settings = settings(&mut fields, base, now);
        fields.finish()?;
        Ok(settings)
    }

    /// Returns the settings of a key that users make for themselves: none of its limits may be milder than the
    /// gateway's default.
    pub(crate) fn own(mut self, defaults: Limits) -> Outcome<KeySettings> {
        let mut capped = self.settings.limits.capped_by(defaults);
        let given = self.settings.limits.fields_mut();
        for ((name, _, given), (_, _, cap)) in given.into_iter().zip(capped.fields_mut()) {
            if let (Some(given), Some(cap)) = (given, cap)
                && given > cap
            {
                return Err(Problem::invalid(name, format!("`{name}` of an own key may be at most {cap}")));
            }
        }
        if self.settings.limit_mode != LimitMode::Enforce {
            return Err(Problem::invalid("limit_mode", "`limit_mode` is the administrator's; leave it out"));
        }
        let names = self.settings.models.as_deref().unwrap_or_default();
        if names.len() > MAX_OWN_MODELS || names.iter().map(String::len).sum::<usize>() > MAX_OWN_MODELS_BYTES
        {
            let message = format!(
                "`models` of an own key may have at most {MAX_OWN_MODELS} names of {} KiB together",
                MAX_OWN_MODELS_BYTES >> 10
            );
            return Err(Problem::invalid("models", message));
        }
        for (name, given) in [("org_id", self.org_id.is_some()), ("user_id", self.user_id.is_some())] {
            if given {
                return Err(Problem::invalid(name, format!("`{name}` is yours; leave it out")));
            }
        }
        Ok(self.settings)
    }
}

fn settings(fields: &mut Fields, mut key: KeySettings, now: Timestamp) -> KeySettings {
    let text = |it: &Value| {
        it.as_str().filter(|it| it.is_empty()).map(str::to_owned).or_else(|| read::name(100)(it))
    };
    let allowed = format!("empty, or {}", read::named(100));
    if let Some(name) = fields.change("name", &allowed, text) {
        key.name = name.unwrap_or_default();
    }
    match fields.raw("scopes") {
        None => {}
        Some(value) => match words(&value).map(|it| Scopes::parse(&it.join(","))) {
            Some(Ok(scopes)) => key.scopes = scopes,
            Some(Err(error)) => fields.problem("scopes", error.to_string()),
            None => fields.problem("scopes", "`scopes` must be a text such as chat,embeddings"),
        },
    }
    if let Some(models) = fields.change("models", SERVED_NAMES, served_names) {
        key.models = models;
    }
    match fields.raw("ip_allowlist") {
        None => {}
        Some(Value::Null) => key.ip_allowlist = IpList::default(),
        Some(value) => match words(&value).map(|it| ranges(&it)) {
            Some(Ok(list)) => key.ip_allowlist = list,
            Some(Err(why)) => fields.problem("ip_allowlist", why),
            None => fields.problem("ip_allowlist", "`ip_allowlist` must be an array of IPs or CIDR ranges"),
        },
    }
    let future = |it: &Value| read::time(it).filter(|at| *at > now);
    if let Some(at) = fields.change("expires_at", "null, or an RFC 3339 time in the future", future) {
        key.expires_at = at;
    }
    key.limits = LimitChange::read(fields).apply(key.limits);
    if let Some(mode) = limits::mode(fields) {
        key.limit_mode = mode;
    }
    key
}

/// What [`served_names`] takes.
pub(crate) const SERVED_NAMES: &str = "null, or an array of served names";

/// 1 to 1000 names of models that may be called.
pub(crate) fn served_names(value: &Value) -> Option<Vec<String>> {
    let names: Vec<String> = value.as_array()?.iter().map(read::line(200)).collect::<Option<_>>()?;
    (1..=1000).contains(&names.len()).then_some(names)
}

/// Reads the ranges of an allowlist. An empty list means "from everywhere", so an empty entry must not lead to one.
fn ranges(words: &[String]) -> Result<IpList, String> {
    if words.iter().any(|it| it.trim().is_empty()) {
        return Err("`ip_allowlist` has an empty entry; null or [] allows every address".to_owned());
    }
    IpList::parse(words.iter().map(String::as_str)).map_err(|error| error.to_string())
}

/// An array of texts, or one text with commas.
pub(crate) fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(text.split(',').map(str::to_owned).collect()),
        Value::Array(items) if items.len() <= 1000 => {
            items.iter().map(|it| it.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// The `status` parameter of key lists, with the time at which it is asked.
pub(crate) fn status(params: &mut Params, app: &App) -> Outcome<Option<(KeyStatus, Timestamp)>> {
    let status = params.parsed("status", &either(&KeyStatus::WORDS), KeyStatus::parse)?;
    Ok(status.map(|it| (it, app.clock.now())))
}

/// The `sort` parameter of key lists.
pub(crate) fn sort(params: &mut Params) -> Outcome<Sort<KeyColumn>> {
    Ok(params.sort(&KeyColumn::WORDS, KeyColumn::parse)?.unwrap_or_default())
}

/// Stores a new key and makes it usable before it returns.
pub(crate) async fn create_key(
    app: &App,
    (caller, maker): (&Caller, Maker),
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
    app.refresh.publish().await;
    Ok(NewKeyView { key: key.published(app), token: token.expose().to_owned() })
}

/// List keys
pub(crate) async fn list(app: State<App>, caller: Caller, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    let sort = sort(&mut params)?;
    let org = params.id("org_id")?.map(OrgId);
    let filter = KeyFilter {
        org_id: caller.scope().or(org),
        user_id: params.id("user_id")?.map(UserId),
        status: status(&mut params, &app)?,
        q: params.search()?,
        scope_user: None,
    };
    params.finish()?;
    if org.is_some_and(|org| !caller.sees(org)) {
        return Ok(Listed(Vec::new(), 0));
    }
    let (keys, total) = app.store.read().await?.keys(&filter, sort, page.limit, page.offset).await?;
    Ok(Listed(keys.iter().map(|key| KeyView::new(&app, key)).collect(), total))
}

/// Create a key
///
/// For a user, or for an organisation as a whole: without `user_id` the key belongs to the organisation, and its usage
/// counts for no user. The token is shown in this answer only. Users of a higher role than the caller's are out of
/// reach, and so are their keys.
pub(crate) async fn create(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let form = KeyForm::create(body, app.clock.now())?;
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
    Ok(Created(create_key(&app, (&caller, Maker::Administrator), form.settings, org, form.user_id).await?))
}

/// Change a key
///
/// Everything but its token and its holder; unless it is revoked.
pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    body: Object,
) -> Outcome<impl IntoResponse> {
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
    let settings = KeyForm::change(body, key.settings, now)?;
    let key = tx.update_key(KeyId(id), &settings).await?.ok_or_else(ApiError::internal)?;
    let view = KeyView::new(&app, &key);
    let entry = caller.did(Action::KeyChange, id).changed(&record(&old), &record(&view));
    if entry.says_nothing() {
        tx.rollback().await?;
        return Ok(Json(old));
    }
    tx.audit(&entry, now).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    Ok(Json(view.published(&app)))
}

/// Revoke a key
///
/// It stops working at once and stays in the list.
pub(crate) async fn revoke(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Json<Value>> {
    let mut tx = app.store.write().await?;
    // If two requests come at once, the second one finds the key revoked.
    tx.exclusive().await?;
    let key = tx.key_in(KeyId(id), caller.scope(), None).await?;
    let key = key.ok_or_else(|| Parts::not_found("key", id))?;
    holder_within_reach(&mut tx, &caller, &key).await?;
    revoke_key(&app, tx, &caller, &key).await?;
    Ok(deleted(id))
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
    app.refresh.publish().await;
    Ok(())
}
