//! `/auth`: sign-in, and what signed-in users do with their own account.

pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod login;
pub(crate) mod models;
pub(crate) mod own_model;
pub(crate) mod password;
pub(crate) mod password_link;
pub(crate) mod sessions;
pub(crate) mod tokens;
pub(crate) mod usage;

use axum::{
    Json,
    extract::State,
    http::{HeaderName, HeaderValue, header::SET_COOKIE},
};
use gantry_domain::{OrgId, Role, UserId, audit::Action, identity::User, view};

use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Done, Operation},
};

view! {
    /// The user who is signed in.
    #[derive(Debug)]
    pub(crate) struct Me: "Me" {
        id: UserId,
        username: String,
        role: Role,
        org_id: OrgId,
    }
}

impl From<&User> for Me {
    fn from(user: &User) -> Self {
        Self { id: user.id, username: user.username.clone(), role: user.role, org_id: user.org_id }
    }
}

view! {
    pub(crate) struct WhoAmI {
        user: Me,
    }
}

pub(crate) const ME: Operation = Operation::new("getMe", "Who am I");

pub(crate) async fn me(caller: Caller) -> Outcome<Json<WhoAmI>> {
    Ok(Json(WhoAmI { user: Me::from(&caller.user) }))
}

/// The answer with a `Set-Cookie` header.
pub(crate) type WithCookie<T> = (Option<[(HeaderName, HeaderValue); 1]>, T);

pub(crate) const LOGOUT: Operation =
    Operation::new("signOut", "Sign out").about("The session ends at once, everywhere.");

pub(crate) async fn logout(app: State<App>, caller: Caller) -> Outcome<WithCookie<Done>> {
    let mut tx = app.store.write().await?;
    tx.delete_session(&caller.session()?).await?;
    tx.audit(&caller.did(Action::Logout, caller.user.id), app.clock.now()).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    let cookie = app.accounts.cookies.header("").map(|value| [(SET_COOKIE, value)]);
    Ok((cookie, Done))
}
