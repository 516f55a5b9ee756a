//! `GET /admin/audit`, and where a request comes from.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header::USER_AGENT},
    response::IntoResponse,
};
use gantry_domain::{
    Timestamp,
    audit::{Action, AuditRow, MAX_USER_AGENT, Origin},
};
use gantry_store::AuditFilter;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, Value};

use crate::{
    App, Peer,
    error::{Outcome, Problem},
    extract::{Listed, Params},
    guard::{self, RequestId},
};

/// A row as answers and exported files have it.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuditView {
    /// Counts up without gaps.
    pub seq: i64,
    /// RFC 3339.
    pub at: String,
    /// `user`, `anonymous` or `settings`.
    pub actor_type: String,
    pub actor_id: Option<i64>,
    pub actor: Option<String>,
    pub action: String,
    pub object_type: String,
    pub object_id: String,
    /// The text is part of the hash, so it is passed on as it stands.
    pub before: Option<Box<RawValue>>,
    pub after: Option<Box<RawValue>>,
    pub ip: Option<String>,
    pub request_id: Option<String>,
    pub user_agent: Option<String>,
    /// Of the row before.
    pub prev_hash: String,
    /// SHA-256, hexadecimal.
    pub hash: String,
}

impl From<AuditRow> for AuditView {
    fn from(row: AuditRow) -> Self {
        let json = |it: Option<String>| it.and_then(|it| RawValue::from_string(it).ok());
        Self {
            seq: row.seq,
            at: row.at.rfc3339(),
            actor_type: row.actor_type,
            actor_id: row.actor_id,
            actor: row.actor,
            action: row.action,
            object_type: row.object_type,
            object_id: row.object_id,
            before: json(row.before),
            after: json(row.after),
            ip: row.ip,
            request_id: row.request_id,
            user_agent: row.user_agent,
            prev_hash: hex(&row.prev_hash),
            hash: hex(&row.hash),
        }
    }
}

impl AuditView {
    /// The row behind it; `None` if time or hash can't be read.
    pub fn row(self) -> Option<AuditRow> {
        let json = |it: Option<Box<RawValue>>| it.map(|it| it.get().to_owned());
        Some(AuditRow {
            seq: self.seq,
            at: Timestamp::parse_rfc3339(&self.at)?,
            actor_type: self.actor_type,
            actor_id: self.actor_id,
            actor: self.actor,
            action: self.action,
            object_type: self.object_type,
            object_id: self.object_id,
            before: json(self.before),
            after: json(self.after),
            ip: self.ip,
            request_id: self.request_id,
            user_agent: self.user_agent,
            prev_hash: unhex(&self.prev_hash)?,
            hash: unhex(&self.hash)?,
        })
    }
}

/// A hash as people see it.
pub fn hex(hash: &[u8; 32]) -> String {
    hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads what [`hex`] wrote.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    let mut hash = [0; 32];
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::try_from(digit(2 * at)? * 16 + digit(2 * at + 1)?).ok()?;
    }
    (digits.len() == 64).then_some(hash)
}

/// A view as rows keep it: without what was spent of budgets, which changes by itself.
pub(crate) fn record(view: impl Serialize) -> Value {
    let mut view = serde_json::to_value(view).unwrap_or_default();
    if let Value::Object(map) = &mut view {
        map.shift_remove("budget");
    }
    view
}

/// Where a request comes from.
pub(crate) fn origin(app: &App, request: &Request) -> Origin {
    let extensions = request.extensions();
    let peer = extensions.get::<Peer>().copied();
    Origin {
        ip: peer.and_then(|it| guard::client_ip(app, it, request.headers())).map(|it| it.to_string()),
        request_id: extensions.get::<RequestId>().map(|it| it.0.clone()),
        user_agent: user_agent(request.headers()),
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
    // A number is a user's id, anything else his name at that time.
    let actor = params.text("actor");
    let actor_id = actor.as_deref().and_then(|it| it.parse().ok());
    let filter = AuditFilter {
        from,
        to,
        actor_id,
        actor: actor.filter(|_| actor_id.is_none()),
        action: action.map(|it| it.as_str().to_owned()),
        object_type: params.text("object_type"),
        object_id: params.text("object_id"),
    };
    params.finish()?;
    let mut tx = app.store.read().await?;
    let (rows, total) = tx.audit_rows(&filter, page.limit, page.offset).await?;
    Ok(Listed(rows.into_iter().map(AuditView::from).collect(), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_as_it_was_written() {
        let hash = std::array::from_fn(|at| at as u8 * 7);
        assert_eq!(unhex(&hex(&hash)), Some(hash));
        for bad in ["", "0", "zz", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }
}
