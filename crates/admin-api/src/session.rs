//! Sessions: who is signed in with a cookie, and how use extends that. The cookie itself is in [`crate::cookies`].

use std::time::Duration;

use axum::http::{HeaderMap, header::COOKIE};
use gantry_domain::{
    Timestamp,
    audit::Origin,
    identity::{Session, session_cookie},
};
use tracing::{debug, warn};

use crate::{
    App,
    caller::{Caller, Grant},
    error::Outcome,
    session_uses::Use,
};

/// Longest time for moving the end of a session, which happens beside the request itself.
const TOUCH: Duration = Duration::from_millis(250);

/// The session cookie of a request.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    session_cookie(headers.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok()))
}

/// Returns who is signed in with this cookie; `None` if nobody is (any more). Extends the session.
pub(crate) async fn caller(app: &App, cookie: &str) -> Outcome<Option<Caller>> {
    let Some(hash) = app.accounts.cookies.verify(cookie) else { return Ok(None) };
    let now = app.clock.now();
    let mut tx = app.store.read_quick().await?;
    let Some((session, user, org_enabled)) = tx.session(&hash).await? else { return Ok(None) };
    drop(tx);
    if !Session::is_current(session.created_at, session.expires_at, now) || !user.enabled || !org_enabled {
        return Ok(None);
    }
    let cookies = &app.accounts.cookies;
    let until = cookies.extended(&session, now);
    if cookies.is_worth_a_write(&session, until) {
        touch(app, &hash, until).await;
    } else {
        app.accounts.session_uses.note(hash, Use { user: user.id, org: user.org_id, until });
    }
    Ok(Some(Caller { user, grant: Grant::Session(hash), origin: Origin::default() }))
}

/// Moves the end of a session, if that can be done at once. Requests that read go on while nothing can be written, and
/// the next one tries again.
async fn touch(app: &App, session: &[u8; 32], until: Timestamp) {
    let work = async {
        let mut tx = app.store.write().await?;
        tx.touch_session(session, until).await?;
        tx.commit().await
    };
    match tokio::time::timeout(TOUCH, work).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(error = &error as &dyn std::error::Error, "a session could not be extended"),
        Err(_) => debug!("a session could not be extended at once"),
    }
}

/// How often a stream checks whether its session is still valid.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(300);

/// Returns whether a session is still valid. A yes of the data plane is enough. The data plane may not know a session
/// yet whose publication was late, so a no has to come from the database.
pub(crate) async fn holds(app: &App, session: &[u8; 32]) -> bool {
    if app.data_plane.session_known(session) {
        return true;
    }
    let Ok(mut tx) = app.store.read_quick().await else { return false };
    match tx.session(session).await {
        Ok(Some((session, user, org_enabled))) => {
            user.enabled
                && org_enabled
                && Session::is_current(session.created_at, session.expires_at, app.clock.now())
        }
        Ok(None) | Err(_) => false,
    }
}

impl Grant {
    /// Returns whether the session or token still stands for its user.
    pub(crate) async fn holds(&self, app: &App) -> bool {
        match self {
            Self::Session(hash) => holds(app, hash).await,
            Self::Token { hash, standing, .. } => standing.holds(app, hash).await,
        }
    }
}
