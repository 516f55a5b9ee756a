//! `/auth/sessions`: where a user is signed in, and ending that.

use axum::{Json, extract::State};
use gantry_domain::{
    Timestamp,
    audit::Action,
    identity::Session,
    schema::{self, Rfc3339},
    view,
};
use uuid::Uuid;

use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::Outcome,
    operation::{Deleted, Listed, Operation, Page, Query, UuidId},
};

view! {
    /// A signed-in browser, or `gantry login` on a machine.
    #[derive(Debug)]
    pub(crate) struct SessionView: "Session" {
        /// It opens nothing.
        id: Uuid,
        created_at: Rfc3339,
        /// To about a tenth of `SESSION_TTL_HOURS`.
        last_used_at: Rfc3339,
        expires_at: Rfc3339,
        /// Whether it is the session of this request.
        current: bool,
    }
}

pub(crate) const LIST: Operation = Operation::new("listOwnSessions", "List your own sessions")
    .about("The session that was used last comes first.");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Outcome<Listed<SessionView>> {
    let (now, current) = (app.clock.now(), caller.session()?);
    let sessions = app.store.read().await?.user_sessions(caller.user.id, now).await?;
    let accounts = &app.accounts;
    let mut used: Vec<(Timestamp, Timestamp, Session)> = sessions
        .into_iter()
        .map(|it| {
            let noted = accounts.session_uses.until(&it.id_hash);
            let until = noted.map_or(it.expires_at, |noted| noted.max(it.expires_at));
            (accounts.cookies.last_use(&it, until), until, it)
        })
        .collect();
    used.sort_by_key(|it| std::cmp::Reverse((it.0, it.2.created_at)));
    let view = |(last, until, it): (Timestamp, Timestamp, Session)| SessionView {
        id: shown(&it.id_hash),
        created_at: it.created_at.into(),
        last_used_at: last.into(),
        expires_at: until.into(),
        current: it.id_hash == current,
    };
    Ok(page.of(used.into_iter().map(view).collect()))
}

/// The id that people see: a part of the hash, from which nobody finds the session's cookie.
fn shown(hash: &[u8; 32]) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(bytes)
}

pub(crate) const END: Operation = Operation::new("endOwnSession", "End one of your own sessions")
    .about("It ends at once, everywhere; who used it has to sign in again.");

pub(crate) async fn end(app: State<App>, caller: Caller, UuidId(id): UuidId) -> Outcome<Deleted<Uuid>> {
    let now = app.clock.now();
    let mut tx = app.store.write().await?;
    let sessions = tx.user_sessions(caller.user.id, now).await?;
    let found = sessions.iter().find(|it| shown(&it.id_hash) == id);
    let session = found.ok_or_else(|| Parts::not_found("session", id))?;
    if !tx.delete_session(&session.id_hash).await? {
        return Err(Parts::not_found("session", id));
    }
    tx.audit(&caller.did(Action::SessionEnd, caller.user.id).noting("ended_sessions", 1), now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Deleted(id))
}

view! {
    pub(crate) struct EndedSessions {
        status: &'static str as schema::constant("ended"),
        ended_count: u64,
    }
}

pub(crate) const END_OTHERS: Operation = Operation::new("endOtherSessions", "End all your other sessions")
    .about("The session of this request goes on.");

pub(crate) async fn end_others(app: State<App>, caller: Caller) -> Outcome<Json<EndedSessions>> {
    let current = caller.session()?;
    let mut tx = app.store.write().await?;
    let ended_count = tx.delete_user_sessions(caller.user.id, Some(current)).await?;
    let entry = caller.did(Action::SessionEnd, caller.user.id).noting("ended_sessions", ended_count);
    tx.audit(&entry, app.clock.now()).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Json(EndedSessions { status: "ended", ended_count }))
}
