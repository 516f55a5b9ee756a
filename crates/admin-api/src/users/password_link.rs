//! `POST /admin/users/{id}/password-link`: makes a one-time link with which a user sets their own password.

use std::{borrow::Cow, time::Duration};

use axum::extract::State;
use gantry_domain::{
    ErrorCode, Timestamp, UserId,
    audit::Action,
    key::{Token, TokenKind},
    schema::{self, Components, Rfc3339},
    view,
};
use serde_json::Value;

use super::visible;
use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::Outcome,
    operation::{Created, Field, Id, Operation, OptionalBody, form, read},
};

const DEFAULT_HOURS: u64 = 72;
const MAX_HOURS: i64 = 168;

form! {
    pub(crate) struct NewLinkForm {
        /// How long the link works, in hours; without it 72.
        hours: optional Hours,
    }
}

/// The lifetime of a link.
pub(crate) struct Hours;

impl Field for Hours {
    type Value = i64;

    fn allowed() -> Cow<'static, str> {
        format!("a whole number from 1 to {MAX_HOURS}").into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<i64> {
        read::positive(MAX_HOURS)(value)
    }

    fn schema(_: &mut Components) -> Value {
        schema::whole(1, MAX_HOURS)
    }
}

view! {
    /// A new link: the only answer that has its token.
    #[derive(Debug)]
    pub(crate) struct PasswordLinkView: "PasswordLink" {
        /// Shown in this answer only.
        token: String as schema::secret(schema::word("^gtl_[0-9A-Za-z]{46}$")),
        /// The address of the link, below the address of the gateway. The token is in its fragment, which browsers don't
        /// send, so that it is in the logs of no proxy.
        path: String as schema::secret(schema::word("^/ui/welcome#gtl_[0-9A-Za-z]{46}$")),
        expires_at: Rfc3339,
    }
}

pub(crate) const CREATE: Operation = Operation::new("createPasswordLink", "Make a link to set a password")
    .about(
        "Anybody who has the link can set the user's password once, and is then signed in as the user: hand it to nobody else. \
         It is for new users, who have no password yet, and for users who forgot theirs, which works until then. A user has \
         one link: a new one takes the place of the old. It ends when the user gets another password, role or organisation, \
         or is disabled.",
    )
    .errors(&[ErrorCode::InvalidState]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    OptionalBody(NewLinkForm { hours }): OptionalBody<NewLinkForm>,
) -> Outcome<Created<PasswordLinkView>> {
    if id == caller.user.id.0 {
        // Only a session may do this, as with a new password: else a token would be as good as the password.
        caller.session()?;
    }
    let now = app.clock.now();
    let expires_at = now.plus(Duration::from_hours(hours.map_or(DEFAULT_HOURS, |it| it as u64)));
    let token = Token::generate(TokenKind::PasswordLink, &mut rand::rng());
    let mut tx = app.store.write().await?;
    // If the user gets a higher role meanwhile, the link must not be left over.
    tx.exclusive().await?;
    let user = visible(&mut tx, &caller, UserId(id)).await?;
    if !user.enabled {
        return Err(Parts::invalid_state("the user is disabled; enable them first"));
    }
    tx.put_password_link(user.id, &token.hash(), expires_at).await?;
    let entry = caller.did(Action::PasswordLink, id).noting("expires_at", expires_at.rfc3339());
    tx.audit(&entry, now).await?;
    tx.commit().await?;
    let token = token.expose().to_owned();
    let path = format!("/ui/welcome#{token}");
    Ok(Created(PasswordLinkView { token, path, expires_at: expires_at.into() }))
}
