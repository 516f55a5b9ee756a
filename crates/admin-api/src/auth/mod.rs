//! `/auth`: sign-in, and what signed-in users do with their own account.

pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod login;
pub(crate) mod models;
pub(crate) mod password;
pub(crate) mod tokens;
pub(crate) mod usage;

use axum::{Json, extract::State, http::header::SET_COOKIE, response::IntoResponse};
use gantry_domain::{Role, audit::Action, identity::User};
use serde::Serialize;
use serde_json::json;

use crate::{App, error::Outcome, operation::Params, policy::Caller};

/// The `user` object of sign-in and `/auth/me`.
#[derive(Debug, Serialize)]
pub(crate) struct Me {
    id: i64,
    username: String,
    role: Role,
    org_id: i64,
}

impl From<&User> for Me {
    fn from(user: &User) -> Self {
        Self { id: user.id.0, username: user.username.clone(), role: user.role, org_id: user.org_id.0 }
    }
}

/// Who am I
pub(crate) async fn me(caller: Caller, params: Params) -> Outcome<impl IntoResponse> {
    params.finish()?;
    Ok(Json(json!({ "user": Me::from(&caller.user) })))
}

/// Sign out
///
/// Ends this session at once, everywhere.
pub(crate) async fn logout(app: State<App>, caller: Caller) -> Outcome<impl IntoResponse> {
    let mut tx = app.store.write().await?;
    tx.delete_session(&caller.session()?).await?;
    tx.audit(&caller.did(Action::Logout, caller.user.id), app.clock.now()).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    let cookie = app.cookies.header("").map(|value| [(SET_COOKIE, value)]);
    Ok((cookie, Json(json!({ "status": "ok" }))))
}
