//! `GET /admin/audit`, and where a request comes from.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header::USER_AGENT},
};
use gantry_domain::{
    Timestamp,
    audit::{Action, AuditRow, MAX_USER_AGENT, ObjectType, Origin},
};
use gantry_store::AuditFilter;
use serde::Serialize;
use serde_json::Value;

use crate::{
    App, Peer,
    error::{Outcome, Problem},
    guard::{self, RequestId},
    operation::{Listed, Operation, Page, Query, query},
};

/// Returns a view as rows of the audit log keep it: without the spent part of budgets, which changes by itself, and
/// without the revision, which says nothing by itself.
pub(crate) fn record(view: impl Serialize) -> Value {
    let mut view = serde_json::to_value(view).unwrap_or_default();
    if let Value::Object(map) = &mut view {
        map.shift_remove("budget");
        map.shift_remove("revision");
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

query! {
    pub(crate) struct AuditQuery {
        page: Page,
        /// The first moment of the range.
        from: Option<Timestamp>,
        /// The moment after the last one of the range.
        to: Option<Timestamp>,
        /// Only what this user did: an id, or the user's name at that time, in upper or lower case.
        actor: Option<String>,
        /// Only this kind of action.
        action: Option<Action>,
        /// Only actions on this kind of object.
        object_type: Option<ObjectType>,
        /// Only actions on the object with this id.
        object_id: Option<String>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listAuditLog", "The audit log").about(
    "The rows say who did what to which object, and from where. The newest row comes first. `before` and `after` have the \
     fields that changed. `hash` covers the row and the hash of the row before (`prev_hash`); `gantry audit verify` \
     checks the chain.",
);

pub(crate) async fn list(
    app: State<App>,
    Query(AuditQuery { page, from, to, actor, action, object_type, object_id }): Query<AuditQuery>,
) -> Outcome<Listed<AuditRow>> {
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(Problem::invalid("from", "`from` must be before `to`"));
    }
    let actor_id = actor.as_deref().and_then(|it| it.parse().ok());
    let actor = actor.filter(|_| actor_id.is_none());
    let filter = AuditFilter { from, to, actor_id, actor, action, object_type, object_id };
    let mut tx = app.store.read().await?;
    let (rows, total) = tx.audit_rows(&filter, page.limit, page.offset).await?;
    Ok(Listed(rows, total))
}
