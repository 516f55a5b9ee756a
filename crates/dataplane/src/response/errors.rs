//! Errors that several stages give, and the shape that an endpoint's clients read.

use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint};
use http::HeaderValue;
use serde_json::Value;

use crate::response::headers::text;

pub(crate) const UNREACHABLE: &str = "the model's engine can't be reached";

pub(crate) fn shutting_down() -> ApiError {
    ApiError::new(ErrorCode::ShuttingDown, "the gateway is shutting down").retry_after(2)
}

pub(crate) fn unavailable(message: &str) -> ApiError {
    ApiError::new(ErrorCode::ModelUnavailable, message)
}

/// The body of an error at one of the [`Endpoint`]s, in the shape that its clients read.
pub(crate) fn body_at(endpoint: Endpoint, error: &ApiError, request_id: &HeaderValue) -> Value {
    let mut body = error.body(text(request_id));
    if endpoint.types_errors() {
        body["type"] = "error".into();
    }
    body
}

/// Returns the event that ends a stream with an error.
pub(crate) fn error_event(endpoint: Endpoint, error: &ApiError, request_id: &HeaderValue) -> String {
    let mut body = error.body(text(request_id));
    if !endpoint.names_events() {
        return format!("data: {body}\n\n");
    }
    body["type"] = "error".into();
    format!("event: error\ndata: {body}\n\n")
}
