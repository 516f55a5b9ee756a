//! `POST /auth/login`.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, header::SET_COOKIE},
};
use gantry_domain::{
    ApiError, ErrorCode, Timestamp,
    audit::{Action, Actor, AuditEntry},
    identity::{NO_PASSWORD, User},
    schema::constant,
    view,
};
use gantry_store::Tx;
use secrecy::SecretString;
use tracing::info;

use super::{Me, WithCookie};
use crate::{
    App, Peer,
    caller::Stranger,
    error::{Outcome, Problem},
    guard,
    operation::{Body, Operation, Text, form},
    password::GivenPassword,
};

/// Most sessions of one user at once: more than anybody has browsers and scripts. All sessions of all users are in
/// memory and are read again with each change.
const MAX_SESSIONS: i64 = 50;
/// Most sessions of one organisation at once. A publication takes some 5 µs for each session.
const MAX_ORG_SESSIONS: i64 = 5000;

form! {
    pub(crate) struct SignInForm {
        username: required Text,
        password: required GivenPassword,
    }
}

view! {
    pub(crate) struct SignedIn {
        status: &'static str as constant("ok"),
        user: Me,
    }
}

pub(crate) const LOGIN: Operation = Operation::new("signIn", "Sign in")
    .about(
        "The answer sets the session cookie. A user has at most 50 sessions, and the users of an organisation at most 5000 \
         together: one more ends the one that was unused longest. A user can sign in 100 times at once, and then once in \
         6 s. The answer to a wrong name and to a wrong password is the same and takes as long.",
    )
    .errors(&[ErrorCode::InvalidCredentials, ErrorCode::TooManyAttempts]);

pub(crate) async fn login(
    app: State<App>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    from: Stranger,
    Body(SignInForm { username, password }): Body<SignInForm>,
) -> Outcome<WithCookie<Json<SignedIn>>> {
    guarded(&app, peer, &headers, &username, enter(&app, &username, &password, &from)).await
}

/// Counts an attempt to sign in as `who` before it is made, so that guessing is slowed down, and answers with the cookie of
/// the session that `entering` begins.
pub(super) async fn guarded(
    app: &App,
    peer: Peer,
    headers: &HeaderMap,
    who: &str,
    entering: impl Future<Output = Outcome<(User, String)>>,
) -> Outcome<WithCookie<Json<SignedIn>>> {
    let ip = guard::client_ip(app, peer, headers)
        .ok_or_else(|| Problem::new(ErrorCode::InvalidRequest, "`X-Forwarded-For` can't be read"))?;
    let attempt = app.accounts.throttle.attempt(who, ip, app.steady.now())?;
    match entering.await {
        Ok((user, cookie)) => {
            attempt.succeeded();
            let cookie = app.accounts.cookies.header(&cookie).map(|value| [(SET_COOKIE, value)]);
            Ok((cookie, Json(SignedIn { status: "ok", user: Me::from(&user) })))
        }
        Err(problem) => {
            match problem.0.code {
                ErrorCode::InvalidCredentials => info!(%ip, "a sign-in failed"),
                // Other errors say nothing about the password.
                _ => attempt.undone(),
            }
            Err(problem)
        }
    }
}

/// Returns the user and the value of the new session's cookie.
async fn enter(
    app: &App,
    username: &str,
    password: &SecretString,
    from: &Stranger,
) -> Outcome<(User, String)> {
    let now = app.clock.now();
    let user = app.store.read_quick().await?.user_by_name(username).await?;
    // A user without a password takes as long as one who is not there.
    let stored = user.as_ref().map(|it| it.password_hash.as_str()).filter(|it| *it != NO_PASSWORD);
    let matches = app.accounts.passwords.verify(password, stored).await?;
    let enabled = match &user {
        Some(user) if user.enabled => {
            app.store.read_quick().await?.org(user.org_id).await?.is_some_and(|org| org.enabled)
        }
        _ => false,
    };
    let mut tx = app.store.write().await?;
    // Verifying takes its time. If the user was disabled or got another password meanwhile, their sessions were ended,
    // and this one must not be left over.
    tx.exclusive().await?;
    let same = match &user {
        Some(user) if matches && enabled => still(&mut tx, user).await?,
        _ => false,
    };
    let about = user.as_ref().map(|it| it.id.to_string()).unwrap_or_default();
    let Some(user) = user.filter(|_| same) else {
        // During a flood of failures only some get an audit row; it says how many were left out before it.
        if let Some(left_out) = app.accounts.throttle.row_of_failure(app.steady.now()) {
            let mut entry = AuditEntry::new(Actor::Anonymous, from.0.clone(), Action::LoginFailed, about);
            if left_out > 0 {
                entry = entry.noting("failures_without_row", left_out);
            }
            tx.audit(&entry, now).await?;
        }
        tx.commit().await?;
        return Err(wrong());
    };
    let value = begin(app, tx, &user, from, Action::Login, now).await?;
    Ok((user, value))
}

/// Begins a session of the user, with `action` in the audit log, and commits. Returns the value of its cookie.
pub(super) async fn begin(
    app: &App,
    mut tx: Tx,
    user: &User,
    from: &Stranger,
    action: Action,
    now: Timestamp,
) -> Outcome<String> {
    let (session, value) = app.accounts.cookies.issue(user.id, now).ok_or_else(ApiError::internal)?;
    make_room(app, &mut tx, user, now).await?;
    tx.insert_session(&session).await?;
    tx.record_login(user.id, now).await?;
    let actor = Actor::User { id: user.id, username: user.username.clone() };
    tx.audit(&AuditEntry::new(actor, from.0.clone(), action, user.id), now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(value)
}

/// Ends the sessions that were unused longest, if there are too many for one more.
async fn make_room(app: &App, tx: &mut Tx, user: &User, now: Timestamp) -> Outcome<()> {
    let latest = &app.accounts.session_uses;
    for (session, until) in latest.of_user(user.id, now) {
        tx.touch_session(&session, until).await?;
    }
    tx.trim_user_sessions(user.id, MAX_SESSIONS - 1).await?;
    if tx.org_session_count(user.org_id).await? >= MAX_ORG_SESSIONS {
        for (session, until) in latest.of_org(user.org_id) {
            tx.touch_session(&session, until).await?;
        }
        tx.trim_org_sessions(user.org_id, MAX_ORG_SESSIONS - 1).await?;
    }
    Ok(())
}

/// Returns whether the user is still as they were verified, and may sign in.
async fn still(tx: &mut Tx, user: &User) -> Outcome<bool> {
    let Some(now) = tx.user(user.id).await? else { return Ok(false) };
    let org_enabled = tx.org(now.org_id).await?.is_some_and(|org| org.enabled);
    Ok(now.enabled && org_enabled && now.password_hash == user.password_hash)
}

fn wrong() -> Problem {
    Problem::new(ErrorCode::InvalidCredentials, "the user name or the password is wrong")
}
