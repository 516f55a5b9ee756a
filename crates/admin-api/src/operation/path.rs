//! The `{id}` of a path.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use gantry_domain::{ApiError, ErrorCode};
use uuid::Uuid;

use crate::error::Problem;

/// The `{id}` of the path. A text that is not a number can't name anything: 404.
pub(crate) struct Id(pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match id_text(parts, state).await?.parse() {
            Ok(id) if id > 0 => Ok(Self(id)),
            _ => Err(Problem(ApiError::new(ErrorCode::NotFound, "ids are positive whole numbers"))),
        }
    }
}

/// The `{id}` of the path, for objects that are named by UUIDs. A text that is not a UUID names nothing: 404.
pub(crate) struct UuidId(pub(crate) Uuid);

impl<S: Send + Sync> FromRequestParts<S> for UuidId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = Uuid::try_parse(&id_text(parts, state).await?);
        id.map(Self).map_err(|_| Problem(ApiError::new(ErrorCode::NotFound, "the id is no UUID")))
    }
}

/// Returns the text of the `{id}` of the path.
pub(crate) async fn id_text<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the path can't be read"))?;
    let id = params.iter().find(|(name, _)| *name == "id");
    Ok(id.map(|(_, value)| value.to_owned()).unwrap_or_default())
}
