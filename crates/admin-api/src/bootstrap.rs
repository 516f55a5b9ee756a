//! `POST /admin/bootstrap-owner`: the first owner and organisation, once. `GET /auth/setup`: whether there is an owner.

use std::borrow::Cow;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, Uri},
};
use gantry_domain::{
    ErrorCode, OrgId, Role, Timestamp, UserId,
    audit::{Action, Actor, AuditEntry, Origin},
    name,
    schema::{self, Components},
    view,
};
use gantry_store::{NewUser, Store};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use crate::{
    App, Peer,
    caller::Stranger,
    error::{Outcome, Problem},
    local_user,
    operation::{Body, Created, Field, Name, Operation, Text, form, read},
    password::{NewPassword, Passwords},
};

form! {
    pub(crate) struct OwnerForm {
        username: required Name<64>,
        password: required NewPassword,
        org_name: required Name<100>,
        setup_token: optional SetupToken,
    }
}

/// The token that the gateway printed at start.
pub(crate) struct SetupToken;

impl Field for SetupToken {
    type Value = String;

    fn allowed() -> Cow<'static, str> {
        Text::allowed()
    }

    fn read(value: &Value, now: Timestamp) -> Option<String> {
        Text::read(value, now)
    }

    fn schema(_: &mut Components) -> Value {
        schema::secret(schema::text())
    }
}

view! {
    pub(crate) struct FirstIds {
        status: &'static str as schema::constant("ok"),
        owner_id: UserId,
        org_id: OrgId,
    }
}

pub(crate) const BOOTSTRAP: Operation = Operation::new("bootstrapOwner", "Create the first owner")
    .about(
        "This works once. It needs the set-up token that the gateway printed at start. Only a program of the gateway's own \
         user or of root on the same machine does without: it must call a loopback address or `localhost` directly. On the \
         machine's command line, `gantry owner create` does the same.",
    )
    .errors(&[
        ErrorCode::AlreadyBootstrapped,
        ErrorCode::NameConflict,
        ErrorCode::SetupTokenRequired,
        ErrorCode::TooManyAttempts,
    ]);

pub(crate) async fn bootstrap(
    app: State<App>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    from: Stranger,
    Body(form): Body<OwnerForm>,
) -> Outcome<Created<FirstIds>> {
    let OwnerForm { username, password, org_name, setup_token: token } = form;
    if app.store.read().await?.any_owner().await? {
        return Err(done());
    }
    let allowed = match &token {
        Some(token) => token.as_bytes().ct_eq(app.accounts.setup_token.expose_secret().as_bytes()).into(),
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
    match create_owner(&app.store, &app.accounts.passwords, first, by, app.clock.now()).await? {
        None => Err(done()),
        Some((owner_id, org_id)) => {
            app.signals.refresh.publish().await;
            Ok(Created(FirstIds { status: "ok", owner_id, org_id }))
        }
    }
}

view! {
    pub(crate) struct SetupView {
        has_owner: bool,
        needs_setup_token: bool,
    }
}

pub(crate) const SETUP: Operation = Operation::new("getSetup", "Is there an owner?").about(
    "Without an owner nobody can sign in. `needs_setup_token` says whether you need the set-up token to make the first one; \
     it is false once there is an owner.",
);

pub(crate) async fn setup(
    app: State<App>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
) -> Outcome<Json<SetupView>> {
    let has_owner = app.store.read().await?.any_owner().await?;
    let needs_setup_token = !has_owner && !local_user::sends(peer, &uri, &headers).await;
    Ok(Json(SetupView { has_owner, needs_setup_token }))
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
