//! `POST /auth/password-link`: sets a user's password with a one-time link of `POST /admin/users/{id}/password-link`.

use axum::{Extension, Json, extract::State, http::HeaderMap};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use gantry_domain::{ErrorCode, Timestamp, audit::Action, identity::User, key};
use gantry_store::{Tx, UserChange};
use secrecy::SecretString;

use super::{
    WithCookie,
    login::{self, SignedIn},
};
use crate::{
    App, Peer,
    caller::Stranger,
    error::{Outcome, Problem},
    operation::{Body, Line, Operation, form},
    password::NewPassword,
};

form! {
    pub(crate) struct UsedLinkForm {
        /// What stands after the `#` in the address of the link.
        token: required Line<200>,
        password: required NewPassword,
    }
}

pub(crate) const USE: Operation = Operation::new("usePasswordLink", "Set your password with a link")
    .about(
        "The link works once. All sessions of the user end; the answer sets the cookie of a new one. The answer to a link \
         that was never made, was used or replaced, or has expired is the same.",
    )
    .errors(&[ErrorCode::InvalidCredentials, ErrorCode::TooManyAttempts]);

pub(crate) async fn redeem(
    app: State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    from: Stranger,
    Body(UsedLinkForm { token, password }): Body<UsedLinkForm>,
) -> Outcome<WithCookie<Json<SignedIn>>> {
    let hash = key::hash(token.as_bytes());
    // The link is the account that is guessed at: nobody can delay the links of others by guessing.
    let who = BASE64.encode(hash);
    login::guarded(&app, peer, &headers, &who, enter(&app, &hash, &password, &from)).await
}

/// Returns the user and the value of the new session's cookie.
async fn enter(
    app: &App,
    hash: &[u8; 32],
    password: &SecretString,
    from: &Stranger,
) -> Outcome<(User, String)> {
    let now = app.clock.now();
    // Checked before the password is hashed, which is costly; it is checked again when nothing else can use the link.
    let mut tx = app.store.read_quick().await?;
    let user = holder(&mut tx, hash, now).await?.id;
    drop(tx);
    let turn = app.accounts.passwords.turn(user).await?;
    let password_hash = Some(app.accounts.passwords.hash(password).await?);
    drop(turn);
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let user = holder(&mut tx, hash, now).await?;
    // This ends the link.
    let change = UserChange { password_hash, ..UserChange::default() };
    let user = tx.update_user(user.id, &change).await?.ok_or_else(invalid)?;
    tx.delete_user_sessions(user.id, None).await?;
    let value = login::begin(app, tx, &user, from, Action::PasswordLinkUse, now).await?;
    Ok((user, value))
}

/// Returns whose link it is, if the link is valid and the user may sign in.
async fn holder(tx: &mut Tx, hash: &[u8; 32], now: Timestamp) -> Outcome<User> {
    let id = tx.password_link_user(hash, now).await?.ok_or_else(invalid)?;
    let user = tx.user(id).await?.filter(|it| it.enabled).ok_or_else(invalid)?;
    let org_enabled = tx.org(user.org_id).await?.is_some_and(|it| it.enabled);
    if org_enabled { Ok(user) } else { Err(invalid()) }
}

fn invalid() -> Problem {
    let message = "the link is not valid any more: it was used or replaced, or has expired";
    Problem::new(ErrorCode::InvalidCredentials, message)
}
