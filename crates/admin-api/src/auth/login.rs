//! `POST /auth/login`.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, header::SET_COOKIE},
    response::IntoResponse,
};
use gantry_domain::{ApiError, ErrorCode};
use secrecy::SecretString;
use serde_json::json;
use tracing::info;

use super::Me;
use crate::{
    App, Peer,
    error::{Outcome, Problem},
    extract::{Fields, Object},
    guard,
};

/// Sign in
///
/// Sets the session cookie. The answer to a wrong name and to a wrong password is the same and takes as long.
pub(crate) async fn login(
    app: State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Object,
) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let username = fields.required("username", "a text", |it| it.as_str().map(str::to_owned));
    let password = fields.required("password", "a text of at most 256 characters", |it| {
        it.as_str().filter(|it| it.len() <= 1024).map(|it| SecretString::from(it.to_owned()))
    });
    fields.finish()?;
    let (Some(username), Some(password)) = (username, password) else { return Err(wrong()) };

    let ip = guard::client_ip(&app, peer, &headers)
        .ok_or_else(|| Problem::new(ErrorCode::InvalidRequest, "`X-Forwarded-For` can't be read"))?;
    let now = app.clock.now();
    app.throttle.check(&username, ip, now)?;

    let user = app.store.read().await?.user_by_name(&username).await?;
    let stored = user.as_ref().map(|it| it.password_hash.as_str());
    let matches = app.passwords.verify(&password, stored).await?;
    let enabled = match &user {
        Some(user) if user.enabled => {
            app.store.read().await?.org(user.org_id).await?.is_some_and(|org| org.enabled)
        }
        _ => false,
    };
    let Some(user) = user.filter(|_| matches && enabled) else {
        app.throttle.failed(&username, ip, now);
        info!(%ip, "a sign-in failed");
        return Err(wrong());
    };
    app.throttle.succeeded(&username, ip);
    let (session, value) = app.cookies.issue(user.id, now).ok_or_else(ApiError::internal)?;
    let mut tx = app.store.write().await?;
    tx.insert_session(&session).await?;
    tx.record_login(user.id, now).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    let cookie = app.cookies.header(&value).map(|value| [(SET_COOKIE, value)]);
    Ok((cookie, Json(json!({ "status": "ok", "user": Me::from(&user) }))))
}

fn wrong() -> Problem {
    Problem::new(ErrorCode::InvalidCredentials, "the user name or the password is wrong")
}
