//! `If-Match`: a change says which state of the record its sender has seen.

use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{header::IF_MATCH, request::Parts},
};
use gantry_domain::{ApiError, ErrorCode, schema::text};

use super::{Doc, Input, Param};
use crate::error::Outcome;

/// The revisions that the sender has seen; `None`: any.
pub(crate) struct IfMatch(Option<Vec<String>>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let lines = parts.headers.get_all(IF_MATCH).iter();
        // A line that is no text matches nothing.
        let tags = lines.flat_map(|it| it.to_str().unwrap_or_default().split(','));
        let tags: Vec<String> = tags.map(|it| it.trim().to_owned()).collect();
        Ok(Self((!tags.is_empty() && !tags.iter().any(|it| it == "*")).then_some(tags)))
    }
}

impl IfMatch {
    /// # Errors
    /// 412 `changed_meanwhile` if the record has another revision now than the sender has seen.
    pub(crate) fn check(&self, revision: &str) -> Outcome<()> {
        let now = format!("\"{revision}\"");
        if self.0.as_ref().is_none_or(|seen| seen.contains(&now)) {
            return Ok(());
        }
        let message = "somebody changed this record after the revision that `If-Match` names";
        Err(ApiError::new(ErrorCode::ChangedMeanwhile, message).into())
    }
}

impl Input for IfMatch {
    fn describe(doc: &mut Doc) {
        let about = "The `revision` of the record that the change was made for, in double quotes: the change is refused with \
                     412 if somebody changed the record since. Without it the last change wins."
            .to_owned();
        doc.params.push(Param { place: "header", name: "If-Match", schema: text(), required: false, about });
        doc.errors.push(ErrorCode::ChangedMeanwhile);
    }
}
