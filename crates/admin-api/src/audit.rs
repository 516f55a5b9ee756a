//! `GET /admin/audit`, and where a request comes from.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header::USER_AGENT},
    response::IntoResponse,
};
use gantry_domain::{
    Timestamp,
    audit::{Action, MAX_USER_AGENT, ObjectType, Origin},
};
use gantry_store::AuditFilter;
use serde::Serialize;
use serde_json::Value;

use crate::{
    App, Peer,
    error::{Outcome, Problem},
    guard::{self, RequestId},
    operation::{Listed, Params},
};

/// Returns a view as rows of the audit log keep it: without the spent part of budgets, which changes by itself.
pub(crate) fn record(view: impl Serialize) -> Value {
    let mut view = serde_json::to_value(view).unwrap_or_default();
    if let Value::Object(map) = &mut view {
        map.shift_remove("budget");
    }
    view
}

/// Returns where a request comes from.
pub(crate) fn origin(app: &App, request: &Request) -> Origin {
    let extensions = request.extensions();
    let peer = extensions.get::<Peer>().copied();
    Origin {
        ip: peer.and_then(|it| guard::client_ip(app, it, request.headers())).map(|it| it.to_string()),
        request_id: extensions.get::<RequestId>().map(|it| it.0.clone()),
        user_agent: user_agent(request.headers()),
        token: None,
    }
}

fn user_agent(headers: &HeaderMap) -> Option<String> {
    let text = String::from_utf8_lossy(headers.get(USER_AGENT)?.as_bytes());
    Some(text.chars().take(MAX_USER_AGENT).collect())
}

/// The audit log
///
/// Who did what to which object, from where: newest first, with the fields that changed as they were and as they are.
pub(crate) async fn list(app: State<App>, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    let time = "an RFC 3339 time";
    let (from, to) = (
        params.parsed("from", time, Timestamp::parse_rfc3339)?,
        params.parsed("to", time, Timestamp::parse_rfc3339)?,
    );
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(Problem::invalid("from", "`from` must be before `to`"));
    }
    let action = params.parsed("action", "an action such as user.create", Action::parse)?;
    let object_type = params.parsed("object_type", "a kind of object such as model", ObjectType::parse)?;
    // A number is a user's id. Anything else is the user's name at that time, in upper or lower case.
    let actor = params.text("actor");
    let actor_id = actor.as_deref().and_then(|it| it.parse().ok());
    let filter = AuditFilter {
        from,
        to,
        actor_id,
        actor: actor.filter(|_| actor_id.is_none()),
        action,
        object_type,
        object_id: params.text("object_id"),
    };
    params.finish()?;
    let mut tx = app.store.read().await?;
    let (rows, total) = tx.audit_rows(&filter, page.limit, page.offset).await?;
    Ok(Listed(rows, total))
}
