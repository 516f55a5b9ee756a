//! `/admin/users`. Nobody may make, change or remove a user of a higher role than their own. An org admin sees their
//! own organisation only.

pub(crate) mod password_link;

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, OrgId, Role, UserId,
    audit::Action,
    identity::{NO_PASSWORD, User},
    limit::Limits,
    schema::Rfc3339,
    view,
};
use gantry_store::{Constraint, NewUser, Sort, StoreError, Tx, UserChange, UserColumn, UserFilter};
use secrecy::SecretString;
use serde_json::json;

use crate::{
    App,
    app::Parts,
    audit::record,
    caller::Caller,
    error::{Outcome, Problem},
    keys::ServedNames,
    limits::{Budgets, LimitChange},
    operation::{
        Body, Created, Deleted, Id, IfMatch, Listed, Name, Operation, Page, Query, Search, form, query,
    },
    password::NewPassword,
    ports::LimitHolder,
};

view! {
    /// A user as answers show it.
    #[derive(Debug)]
    pub(crate) struct UserView: "User" {
        id: UserId,
        username: String,
        role: Role,
        org_id: OrgId,
        org_name: String,
        enabled: bool,
        created_at: Rfc3339,
        last_login_at: Option<Rfc3339>,
        /// Served names that all keys and sessions of the user may call; `null` is all.
        models: Option<Vec<String>>,
        limits: Limits => part,
        budget: Option<Budgets>,
        /// For `If-Match`: it changes with everything of the user that can be changed.
        revision: String,
    }
}

impl UserView {
    fn new(app: &App, user: User, org_name: String) -> Self {
        let User {
            id,
            org_id,
            username,
            password_hash: _,
            role,
            enabled,
            created_at,
            last_login_at,
            limits,
            models,
        } = user;
        let (created_at, last_login_at) = (created_at.into(), last_login_at.map(Rfc3339));
        let budget = Budgets::new(&limits, app.allowances.spent(LimitHolder::User(id)));
        let revision =
            app.accounts.cookies.revision(&json!([username, role, org_id, enabled, models, limits]));
        Self {
            id,
            username,
            role,
            org_id,
            org_name,
            enabled,
            created_at,
            last_login_at,
            models,
            limits,
            budget,
            revision,
        }
    }

    /// Reads the budgets again after a change was published: only from then on is counted what a new budget is for.
    fn published(mut self, app: &App) -> Self {
        self.budget = Budgets::new(&self.limits, app.allowances.spent(LimitHolder::User(self.id)));
        self
    }
}

query! {
    pub(crate) struct UserQuery {
        page: Page,
        /// Only those of this organisation.
        org_id: Option<OrgId>,
        /// Only those with this role.
        role: Option<Role>,
        sort: Sort<UserColumn>,
        /// Part of the name.
        q: Option<Search>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listUsers", "List users");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(UserQuery { page, org_id, role, sort, q }): Query<UserQuery>,
) -> Outcome<Listed<UserView>> {
    if org_id.is_some_and(|org| !caller.sees(org)) {
        return Ok(Listed(Vec::new(), 0));
    }
    let filter = UserFilter { org_id: caller.scope().or(org_id), q: q.map(|it| it.0), role };
    let mut tx = app.store.read().await?;
    let (users, total) = tx.users(&filter, sort, page.limit, page.offset).await?;
    Ok(Listed(users.into_iter().map(|(user, org)| UserView::new(&app, user, org)).collect(), total))
}

query! {
    pub(crate) struct LookupQuery {
        page: Page,
        /// Part of the name.
        q: Option<Search>,
    }
}

view! {
    /// A user as select inputs show it.
    pub(crate) struct UserName {
        id: UserId,
        username: String,
        org_id: OrgId,
    }
}

pub(crate) const LOOKUP: Operation = Operation::new("lookUpUsers", "Users for select inputs");

pub(crate) async fn lookup(
    app: State<App>,
    caller: Caller,
    Query(LookupQuery { page, q }): Query<LookupQuery>,
) -> Outcome<Listed<UserName>> {
    let q = q.as_ref().map(|it| it.0.as_str());
    let users = app.store.read().await?.user_lookup(caller.scope(), q).await?;
    let entry = |(id, username, org_id)| UserName { id, username, org_id };
    Ok(page.of(users.into_iter().map(entry).collect()))
}

form! {
    pub(crate) struct NewUserForm {
        username: required Name<64>,
        /// A user without a password can't sign in until they set one with a link (`createPasswordLink`).
        password: optional NewPassword,
        role: optional Role,
        org_id: optional OrgId,
        enabled: optional bool,
        bounds: part Bounds,
    }
}

pub(crate) const CREATE: Operation = Operation::new("createUser", "Create a user")
    .about(
        "Nobody may give a higher role than their own. Without `org_id` the user belongs to the caller's organisation. An \
         organisation has at most `ORG_USERS_MAX` users (409 `invalid_state`). Limits and models bind all keys and \
         sessions of the user together, including those that the user makes. Keys of the organisation, which count for no \
         user, are bound by the organisation's limits only.",
    )
    .errors(&[ErrorCode::NameConflict, ErrorCode::TooManyAttempts]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Body(form): Body<NewUserForm>,
) -> Outcome<Created<UserView>> {
    let NewUserForm { username, password, role, org_id: org, enabled, bounds } = form;
    let (role, enabled) = (role.unwrap_or(Role::User), enabled.unwrap_or(true));
    may_give(&caller, role)?;
    bounds.may_be_set(&caller, role)?;
    let org = org.unwrap_or(caller.user.org_id);
    // Checked before the password is hashed, which is costly; what can change meanwhile is checked again.
    let mut tx = app.store.read().await?;
    org_name(&mut tx, &caller, org).await?;
    has_room(&app, &mut tx, org).await?;
    is_free(&mut tx, &username, None).await?;
    drop(tx);
    let password_hash = match &password {
        Some(password) => hashed(&app, &caller, password).await?,
        None => NO_PASSWORD.to_owned(),
    };
    let mut tx = app.store.write().await?;
    // If two requests come at once, the later one must count what the earlier one made.
    tx.exclusive().await?;
    let org_name = org_name(&mut tx, &caller, org).await?;
    has_room(&app, &mut tx, org).await?;
    let user = NewUser { org_id: org, username, password_hash, role, enabled };
    let now = app.clock.now();
    let mut user = tx.insert_user(&user, now).await?;
    if !bounds.is_empty() {
        let change = bounds.change(&user);
        user = tx.update_user(user.id, &change).await?.ok_or_else(ApiError::internal)?;
    }
    let view = UserView::new(&app, user, org_name);
    tx.audit(&caller.did(Action::UserCreate, view.id).created(record(&view)), now).await?;
    tx.commit().await?;
    Ok(Created(view))
}

form! {
    pub(crate) struct ChangedUser {
        username: given Name<64>,
        password: given NewPassword,
        role: given Role,
        org_id: given OrgId,
        enabled: given bool,
        bounds: part Bounds,
    }
}

pub(crate) const CHANGE: Operation = Operation::new("changeUser", "Change a user")
    .about(
        "A new password or role, another organisation, or disabling ends the user's sessions at once. Limits and models \
         bind all keys and sessions of the user together; an org admin sets them for users with the role `user`.",
    )
    .errors(&[ErrorCode::NameConflict, ErrorCode::LastOwner, ErrorCode::TooManyAttempts]);

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    seen: IfMatch,
    Body(form): Body<ChangedUser>,
) -> Outcome<Json<UserView>> {
    let ChangedUser { username, password, role, org_id, enabled, bounds } = form;
    if let Some(role) = role {
        may_give(&caller, role)?;
    }
    if password.is_some() && id == caller.user.id.0 {
        // Only a session may do this. Else a token would be as good as the password: its holder could set a new
        // password and sign in.
        caller.session()?;
    }
    let mut password_hash = None;
    if let Some(password) = &password {
        // Checked before the password is hashed, which is costly; what can change meanwhile is checked again.
        let mut tx = app.store.read().await?;
        may_change(&mut tx, &caller, UserId(id), org_id, username.as_deref()).await?;
        drop(tx);
        password_hash = Some(hashed(&app, &caller, password).await?);
    }
    let mut tx = app.store.write().await?;
    // If two requests come at once, they must not remove the last two owners between them.
    tx.exclusive().await?;
    let before = visible(&mut tx, &caller, UserId(id)).await?;
    bounds.may_be_set(&caller, before.role)?;
    let old = UserView::new(&app, before.clone(), org_name(&mut tx, &caller, before.org_id).await?);
    seen.check(&old.revision)?;
    let org_name = org_name(&mut tx, &caller, org_id.unwrap_or(before.org_id)).await?;
    if let Some(org) = org_id.filter(|it| *it != before.org_id) {
        has_room(&app, &mut tx, org).await?;
    }
    let change = UserChange { username, password_hash, role, enabled, org_id, ..bounds.change(&before) };
    let ends_sessions = ends_sessions(&change, &before);
    let user = tx.update_user(before.id, &change).await?.ok_or_else(|| Parts::not_found("user", id))?;
    keep_an_owner(&mut tx).await?;
    if ends_sessions {
        tx.delete_user_sessions(user.id, None).await?;
    }
    if enabled == Some(false) {
        tx.delete_user_tokens(user.id).await?;
    }
    let view = UserView::new(&app, user, org_name);
    let mut entry = caller.did(Action::UserChange, id).changed(&record(&old), &record(&view));
    if password.is_some() {
        entry = entry.noting("password_changed", true);
    }
    if entry.says_nothing() {
        tx.rollback().await?;
        return Ok(Json(old));
    }
    tx.audit(&entry, app.clock.now()).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Json(view.published(&app)))
}

/// Whether the user has to sign in again after the change.
fn ends_sessions(change: &UserChange, before: &User) -> bool {
    change.password_hash.is_some()
        || change.role.is_some_and(|it| it != before.role)
        || change.org_id.is_some_and(|it| it != before.org_id)
        || change.enabled == Some(false)
}

/// Checks that the user exists for the caller, and so does the new organisation, and that the new name is free.
async fn may_change(
    tx: &mut Tx,
    caller: &Caller,
    id: UserId,
    org: Option<OrgId>,
    username: Option<&str>,
) -> Outcome<()> {
    visible(tx, caller, id).await?;
    if let Some(org) = org {
        org_name(tx, caller, org).await?;
    }
    match username {
        Some(username) => is_free(tx, username, Some(id)).await,
        None => Ok(()),
    }
}

pub(crate) const DELETE: Operation = Operation::new("deleteUser", "Delete a user")
    .about("The user's sessions and keys are deleted, too. Their usage stays.")
    .errors(&[ErrorCode::LastOwner]);

pub(crate) async fn delete(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Deleted<UserId>> {
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let user = visible(&mut tx, &caller, UserId(id)).await?;
    tx.delete_user(user.id).await?;
    keep_an_owner(&mut tx).await?;
    let org = tx.org(user.org_id).await?.map(|it| it.name).unwrap_or_default();
    let entry = caller.did(Action::UserDelete, id).deleted(record(UserView::new(&app, user, org)));
    tx.audit(&entry, app.clock.now()).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Deleted(UserId(id)))
}

/// The hash of a password that the caller sets.
async fn hashed(app: &App, caller: &Caller, password: &SecretString) -> Outcome<String> {
    let _turn = app.accounts.passwords.turn(caller.user.id).await?;
    Ok(app.accounts.passwords.hash(password).await?)
}

/// # Errors
/// 409 `name_conflict` if somebody but `own` has the name.
async fn is_free(tx: &mut Tx, username: &str, own: Option<UserId>) -> Outcome<()> {
    match tx.user_by_name(username).await? {
        Some(other) if Some(other.id) != own => Err(StoreError::Conflict(Constraint::Username).into()),
        _ => Ok(()),
    }
}

/// # Errors
/// 409 `invalid_state` if the organisation has as many users as it may.
async fn has_room(app: &App, tx: &mut Tx, org: OrgId) -> Outcome<()> {
    let most = app.config.org_users_max;
    if tx.org_user_count(org).await? < i64::from(most) {
        return Ok(());
    }
    let message =
        format!("the organisation has {most} users, which is as many as it may have (ORG_USERS_MAX)");
    Err(Parts::invalid_state(message))
}

form! {
    /// What a body says about the limits and models of a user.
    struct Bounds {
        /// Served names that the user's keys and sessions may call; `null` is all.
        models: change ServedNames,
        limits: part LimitChange,
    }
}

impl Bounds {
    fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.models.is_none()
    }

    /// Checks that nobody below the role `admin` widens what binds themselves or their equals.
    ///
    /// # Errors
    /// 403 `forbidden`.
    fn may_be_set(&self, caller: &Caller, role: Role) -> Outcome<()> {
        if self.is_empty() || caller.role().is_global() || role < caller.role() {
            return Ok(());
        }
        let message =
            format!("limits and models of a user with the role `{role}` are set by the roles above it");
        Err(Problem::new(ErrorCode::Forbidden, message))
    }

    fn change(&self, user: &User) -> UserChange {
        let limits = (!self.limits.is_empty()).then(|| self.limits.apply(user.limits));
        UserChange { limits, models: self.models.clone(), ..UserChange::default() }
    }
}

/// The user, if this caller may see and touch them.
async fn visible(tx: &mut Tx, caller: &Caller, id: UserId) -> Outcome<User> {
    let user = tx.user_in(id, caller.scope()).await?;
    let user = user.ok_or_else(|| Parts::not_found("user", id))?;
    within_reach(caller, &user)?;
    Ok(user)
}

/// Checks that nobody touches the account or the keys of a user with a higher role than their own.
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

/// Returns the organisation's name, if the organisation exists for this caller.
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
