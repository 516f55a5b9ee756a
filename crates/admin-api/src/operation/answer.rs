//! What handlers answer: one object, a list with its length, 201 for what was made, 202 for what is recorded.

use std::marker::PhantomData;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;

/// A list with the total in `X-Total-Count`.
pub(crate) struct Listed<T>(pub(crate) Vec<T>, pub(crate) i64);

impl<T: Serialize> IntoResponse for Listed<T> {
    fn into_response(self) -> Response {
        ([("x-total-count", self.1.to_string())], Json(self.0)).into_response()
    }
}

/// 201 with the object.
pub(crate) struct Created<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}

/// An answer that is written by hand, such as a stream, and has the form of an `T`.
pub(crate) struct Written<T>(Response, PhantomData<T>);

impl<T> Written<T> {
    /// `T` is the answer type that stands for what `response` contains.
    pub(crate) fn new(response: impl IntoResponse) -> Self {
        Self(response.into_response(), PhantomData)
    }
}

impl<T> IntoResponse for Written<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

/// 202: recorded; the effect comes later.
pub(crate) struct Accepted<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self.0)).into_response()
    }
}

/// One of two answers.
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for Either<A, B> {
    fn into_response(self) -> Response {
        match self {
            Self::First(it) => it.into_response(),
            Self::Second(it) => it.into_response(),
        }
    }
}

/// 200 `{"id":…,"status":"deleted"}`.
#[derive(Debug)]
pub(crate) struct Deleted<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Deleted<T> {
    fn into_response(self) -> Response {
        deleted(self.0).into_response()
    }
}

/// 200 `{"status":"ok"}`.
#[derive(Debug)]
pub(crate) struct Done;

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        Json(serde_json::json!({ "status": "ok" })).into_response()
    }
}

/// 200 `{"id":…,"status":"deleted"}`.
pub(crate) fn deleted(id: impl Serialize) -> Json<Value> {
    Json(serde_json::json!({ "id": id, "status": "deleted" }))
}
