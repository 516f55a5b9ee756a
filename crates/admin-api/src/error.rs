//! [`Problem`]: an [`ApiError`] as an HTTP answer, and what becomes of the store's errors.

use axum::{
    Json,
    http::{
        HeaderValue, StatusCode,
        header::{CONNECTION, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use gantry_domain::{ApiError, ErrorCode};
use gantry_store::{Constraint, StoreError};
use tracing::error;

/// The error type of every handler.
#[derive(Debug)]
pub struct Problem(pub ApiError);

pub(crate) type Outcome<T> = Result<T, Problem>;

impl Problem {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(ApiError::new(code, message))
    }

    pub(crate) fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self(ApiError::invalid(param, message))
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Conflict(constraint) => return Self(conflict(*constraint)),
            // The object was there when the request was checked.
            StoreError::Reference => {
                return Self::new(ErrorCode::InvalidState, "what this belongs to was deleted meanwhile");
            }
            _ => {}
        }
        if let Some(refusal) = error.refusal() {
            error!(error = &error as &dyn std::error::Error, "{}", refusal.message);
            return Self(refusal);
        }
        error!(error = &error as &dyn std::error::Error, cause = ?error, "a database operation failed");
        Self(ApiError::internal())
    }
}

fn conflict(constraint: Constraint) -> ApiError {
    let (code, param, message) = match constraint {
        Constraint::ServedName => {
            (ErrorCode::ServedNameConflict, "served_name", "another model has this served name")
        }
        Constraint::Username => (ErrorCode::NameConflict, "username", "this user name is taken"),
        Constraint::OrgName => (ErrorCode::NameConflict, "name", "another organisation has this name"),
        Constraint::KeyHash | Constraint::DeploymentJob => return ApiError::internal(),
    };
    ApiError::new(code, message).with_param(param)
}

/// An error on its way to the outermost layer, which knows the request id and writes it into header and body.
#[derive(Clone)]
pub(crate) struct Carried(pub(crate) ApiError);

impl IntoResponse for Problem {
    /// The body is written by [`finish`], which knows the request id.
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(Carried(self.0));
        response
    }
}

/// The final form of an error.
pub(crate) fn finish(error: &ApiError, request_id: &str) -> Response {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(error.body(request_id))).into_response();
    if let Some(seconds) = error.retry_after_sec {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    // The rest of the body is not read, so the connection can't carry another request.
    if matches!(error.code, ErrorCode::RequestTooLarge | ErrorCode::RequestTimeout) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
