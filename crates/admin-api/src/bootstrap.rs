//! `POST /admin/bootstrap-owner`: the first owner and organisation, once. `GET /auth/setup`: whether there is an owner.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::IntoResponse,
};
use gantry_domain::{
    ApiError, ErrorCode, OrgId, Role, Timestamp, UserId,
    audit::{Action, Actor, AuditEntry, Origin},
    name,
};
use gantry_store::{NewUser, Store};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use crate::{
    App, Peer,
    error::{Outcome, Problem},
    local_user,
    operation::{Fields, Object, Params, read},
    password,
    password::Passwords,
    policy::Stranger,
};

/// Create the first owner
///
/// Needs the set-up token that the gateway printed at start, unless it comes from the gateway's own user or root on its
/// machine.
pub(crate) async fn bootstrap(
    app: State<App>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    from: Stranger,
    body: Object,
) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let username = fields.required("username", &read::named(64), read::name(64));
    let password = fields.typed::<password::NewPassword>("password").required();
    let org_name = fields.required("org_name", &read::named(100), read::name(100));
    let token = fields.optional("setup_token", "a text", |it| it.as_str().map(str::to_owned));
    fields.finish()?;
    let (Some(username), Some(password), Some(org_name)) = (username, password, org_name) else {
        return Err(ApiError::internal().into());
    };
    if app.store.read().await?.any_owner().await? {
        return Err(done());
    }
    let allowed = match &token {
        Some(token) => token.as_bytes().ct_eq(app.setup_token.expose_secret().as_bytes()).into(),
        None => local_user::sends(peer, &uri, &headers).await,
    };
    if !allowed {
        let message = match token {
            Some(_) => "the `setup_token` is not the one that the gateway printed at start",
            None => "the `setup_token` that the gateway printed at start is needed",
        };
        return Err(Problem::new(ErrorCode::SetupTokenRequired, message));
    }
    let first = FirstOwner { username: &username, password: &password, org_name: &org_name };
    let by = (Actor::Anonymous, from.0);
    match create_owner(&app.store, &app.passwords, first, by, app.clock.now()).await? {
        None => Err(done()),
        Some((owner, org)) => {
            app.refresh.publish().await;
            let body = json!({ "status": "ok", "owner_id": owner, "org_id": org });
            Ok((StatusCode::CREATED, Json(body)))
        }
    }
}

/// Is there an owner?
///
/// For the page and the program that sign in: without an owner nobody can.
pub(crate) async fn setup(
    app: State<App>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    params: Params,
) -> Outcome<Json<Value>> {
    params.finish()?;
    let has_owner = app.store.read().await?.any_owner().await?;
    let needs_token = !has_owner && !local_user::sends(peer, &uri, &headers).await;
    Ok(Json(json!({ "has_owner": has_owner, "needs_setup_token": needs_token })))
}

fn done() -> Problem {
    Problem::new(ErrorCode::AlreadyBootstrapped, "there is an owner already: sign in")
}

/// The owner and the organisation that [`create_owner`] makes.
#[derive(Debug, Clone, Copy)]
pub struct FirstOwner<'a> {
    pub username: &'a str,
    pub password: &'a SecretString,
    pub org_name: &'a str,
}

/// Makes the first owner and their organisation; `None` if there is an owner.
///
/// # Errors
/// The database refuses, or a name is taken.
pub async fn create_owner(
    store: &Store,
    passwords: &Passwords,
    first: FirstOwner<'_>,
    (actor, origin): (Actor, Origin),
    now: Timestamp,
) -> Result<Option<(UserId, OrgId)>, Problem> {
    let password_hash = passwords.hash(first.password).await?;
    let mut tx = store.write().await?;
    // If hundreds of requests come at once, exactly one gets past this.
    tx.exclusive().await?;
    if tx.any_owner().await? {
        return Ok(None);
    }
    // Values from settings get here without any check.
    for (field, given, max) in [("username", first.username, 64), ("org_name", first.org_name, 100)] {
        if !name::is_name(given, max) {
            return Err(Problem::invalid(field, format!("`{field}` must be {}", read::named(max))));
        }
    }
    let org = tx.insert_org(first.org_name, now).await?;
    let user = NewUser {
        org_id: org.id,
        username: first.username.to_owned(),
        password_hash,
        role: Role::Owner,
        enabled: true,
    };
    let user = tx.insert_user(&user, now).await?;
    let made = json!({
        "username": user.username, "role": user.role, "org_id": org.id, "org_name": org.name,
    });
    tx.audit(&AuditEntry::new(actor, origin, Action::OwnerBootstrap, user.id).created(made), now).await?;
    tx.commit().await?;
    Ok(Some((user.id, org.id)))
}
