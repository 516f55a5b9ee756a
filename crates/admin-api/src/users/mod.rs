//! `/admin/users`. Nobody may make, change or remove a user of a higher role than his own; an org admin sees his
//! organisation only.

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::{ApiError, ErrorCode, OrgId, Role, Timestamp, UserId, audit::Action, identity::User};
use gantry_store::{NewUser, Tx, UserChange, UserColumn, UserFilter};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    App,
    app::Parts,
    error::{Outcome, Problem},
    extract::{Created, Fields, Id, Listed, Object, Params, deleted, read, typed},
    password,
    policy::Caller,
};

const ROLES: &str = "user, org_admin, admin or owner";

#[derive(Debug, Serialize)]
struct UserView {
    id: UserId,
    username: String,
    role: Role,
    org_id: OrgId,
    org_name: String,
    enabled: bool,
    created_at: String,
    last_login_at: Option<String>,
}

impl UserView {
    fn new(user: User, org_name: String) -> Self {
        let User { id, org_id, username, password_hash: _, role, enabled, created_at, last_login_at } = user;
        let (created_at, last_login_at) = (created_at.rfc3339(), last_login_at.map(Timestamp::rfc3339));
        Self { id, username, role, org_id, org_name, enabled, created_at, last_login_at }
    }
}

/// List users
pub(crate) async fn list(app: State<App>, caller: Caller, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    let org = params.id("org_id")?.map(OrgId);
    let role = params.parsed("role", ROLES, Role::parse)?;
    let sort =
        params.sort("id, username, created_at or last_login_at", UserColumn::parse)?.unwrap_or_default();
    let filter = UserFilter { org_id: caller.scope().or(org), q: params.search()?, role };
    params.finish()?;
    if org.is_some_and(|org| !caller.sees(org)) {
        return Ok(Listed(Vec::new(), 0));
    }
    let mut tx = app.store.read().await?;
    let (users, total) = tx.users(&filter, sort, page.limit, page.offset).await?;
    Ok(Listed(users.into_iter().map(|(user, org)| UserView::new(user, org)).collect(), total))
}

/// Users for select inputs
pub(crate) async fn lookup(
    app: State<App>,
    caller: Caller,
    mut params: Params,
) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    let q = params.search()?;
    params.finish()?;
    let users = app.store.read().await?.user_lookup(caller.scope(), q.as_deref()).await?;
    let entry = |(id, username, org_id)| json!({ "id": id, "username": username, "org_id": org_id });
    Ok(page.of(users.into_iter().map(entry).collect()))
}

/// Create a user
pub(crate) async fn create(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let username = fields.required("username", &read::named(64), read::name(64));
    let password = fields.required("password", password::ACCEPTABLE, password::acceptable);
    let role = fields.optional("role", ROLES, typed::<Role>).unwrap_or(Role::User);
    let org = fields.optional("org_id", "the id of an organisation", read::id).map(OrgId);
    let enabled = fields.optional("enabled", "true or false", Value::as_bool).unwrap_or(true);
    fields.finish()?;
    let (Some(username), Some(password)) = (username, password) else {
        return Err(ApiError::internal().into());
    };
    may_give(&caller, role)?;
    let org = org.unwrap_or(caller.user.org_id);
    let password_hash = app.passwords.hash(&password).await?;
    let mut tx = app.store.write().await?;
    let org_name = org_name(&mut tx, &caller, org).await?;
    let user = NewUser { org_id: org, username, password_hash, role, enabled };
    let now = app.clock.now();
    let view = UserView::new(tx.insert_user(&user, now).await?, org_name);
    tx.audit(&caller.did(Action::UserCreate, view.id).created(json!(view)), now).await?;
    tx.commit().await?;
    Ok(Created(view))
}

/// Change a user
///
/// A new password or role, another organisation, or disabling ends his sessions at once.
pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    body: Object,
) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let username = fields.given("username", &read::named(64), read::name(64));
    let password = fields.given("password", password::ACCEPTABLE, password::acceptable);
    let role = fields.given("role", ROLES, typed::<Role>);
    let org_id = fields.given("org_id", "the id of an organisation", read::id).map(OrgId);
    let enabled = fields.given("enabled", "true or false", Value::as_bool);
    fields.finish()?;
    if let Some(role) = role {
        may_give(&caller, role)?;
    }
    let password_hash = match &password {
        Some(password) => Some(app.passwords.hash(password).await?),
        None => None,
    };
    let mut tx = app.store.write().await?;
    // Two at once must not each take away the last owner but one.
    tx.exclusive().await?;
    let before = visible(&mut tx, &caller, UserId(id)).await?;
    let old = UserView::new(before.clone(), org_name(&mut tx, &caller, before.org_id).await?);
    let org_name = org_name(&mut tx, &caller, org_id.unwrap_or(before.org_id)).await?;
    let ends_sessions = password_hash.is_some()
        || role.is_some_and(|it| it != before.role)
        || org_id.is_some_and(|it| it != before.org_id)
        || enabled == Some(false);
    let change = UserChange { username, password_hash, role, enabled, org_id };
    let user = tx.update_user(before.id, &change).await?.ok_or_else(|| Parts::not_found("user", id))?;
    keep_an_owner(&mut tx).await?;
    if ends_sessions {
        tx.delete_user_sessions(user.id, None).await?;
    }
    let view = UserView::new(user, org_name);
    let mut entry = caller.did(Action::UserChange, id).changed(&json!(old), &json!(view));
    if password.is_some() {
        entry = entry.noting("password_changed", true);
    }
    if entry.says_nothing() {
        tx.rollback().await?;
        return Ok(Json(old));
    }
    tx.audit(&entry, app.clock.now()).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    Ok(Json(view))
}

/// Delete a user
///
/// With his sessions and keys. His usage stays.
pub(crate) async fn delete(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Json<Value>> {
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let user = visible(&mut tx, &caller, UserId(id)).await?;
    tx.delete_user(user.id).await?;
    keep_an_owner(&mut tx).await?;
    let org = tx.org(user.org_id).await?.map(|it| it.name).unwrap_or_default();
    let entry = caller.did(Action::UserDelete, id).deleted(json!(UserView::new(user, org)));
    tx.audit(&entry, app.clock.now()).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    Ok(deleted(id))
}

/// The user, if this caller may see and touch him.
async fn visible(tx: &mut Tx, caller: &Caller, id: UserId) -> Outcome<User> {
    let user = tx.user_in(id, caller.scope()).await?;
    let user = user.ok_or_else(|| Parts::not_found("user", id))?;
    within_reach(caller, &user)?;
    Ok(user)
}

/// Nobody touches the account or the keys of one with a higher role than his own.
///
/// # Errors
/// 403 `forbidden`.
pub(crate) fn within_reach(caller: &Caller, user: &User) -> Outcome<()> {
    if user.role > caller.role() {
        let message = format!("a user with the role `{}` is beyond your role", user.role);
        return Err(Problem::new(ErrorCode::Forbidden, message));
    }
    Ok(())
}

fn may_give(caller: &Caller, role: Role) -> Outcome<()> {
    if role > caller.role() {
        let message = format!("you can't give the role `{role}`: yours is `{}`", caller.role());
        return Err(Problem::new(ErrorCode::Forbidden, message));
    }
    Ok(())
}

/// The organisation's name, if it is there for this caller.
async fn org_name(tx: &mut Tx, caller: &Caller, org: OrgId) -> Outcome<String> {
    let found = tx.org(org).await?.filter(|_| caller.sees(org));
    found.map(|it| it.name).ok_or_else(|| Parts::not_found_in("org_id", "organisation", org))
}

async fn keep_an_owner(tx: &mut Tx) -> Outcome<()> {
    if tx.owner_count_enabled().await? == 0 {
        let message = "this is the last owner; make another one first";
        return Err(Problem::new(ErrorCode::LastOwner, message));
    }
    Ok(())
}
