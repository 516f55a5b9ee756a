//! What goes back to clients: the body type of all answers, and the ones that the gateway makes itself.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use gantry_domain::{ApiError, endpoint::Endpoint, web};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;

use crate::{
    config::{BoxError, OtherBody},
    response::tap::Tap,
    thread::{Phase, Worker},
};

pub(crate) static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Header on every answer of a simulated engine.
static X_GANTRY_SIMULATOR: HeaderName = HeaderName::from_static("x-gantry-simulator");
static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
static X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const MAX_REQUEST_ID: usize = 128;

/// Body of an answer.
pub(crate) enum Answer {
    Whole(Bytes),
    /// From an engine.
    Tap(Box<Tap>),
    Other(OtherBody),
    /// Ends when the gateway drains.
    Events(OtherBody, Rc<Worker>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Tap(tap) => tap.poll_frame(cx),
            Self::Events(_, worker) if worker.phase() >= Phase::Drain => Poll::Ready(None),
            Self::Other(body) | Self::Events(body, _) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Tap(_) => false,
            Self::Other(body) | Self::Events(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Tap(tap) => tap.size_hint(),
            Self::Other(body) | Self::Events(body, _) => body.size_hint(),
        }
    }
}

/// The client's request id, if it is one that may be stored and shown. A copy: the original would keep the whole
/// read buffer alive as long as the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = headers.get(&X_REQUEST_ID)?.as_bytes();
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let accepted = (1..=MAX_REQUEST_ID).contains(&value.len()) && value.iter().all(good);
    if accepted { HeaderValue::from_bytes(value).ok() } else { None }
}

pub(crate) fn json(status: StatusCode, request_id: &HeaderValue, body: impl Into<Bytes>) -> Response<Answer> {
    let mut answer = Response::new(Answer::Whole(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    common(headers, request_id);
    answer
}

/// Headers of all answers of the data plane.
pub(crate) fn common(headers: &mut HeaderMap, request_id: &HeaderValue) {
    web::add_request_id(headers, request_id);
    web::add_security_headers(headers, "default-src 'none'; frame-ancestors 'none'");
}

/// An error, in the shape of all errors. On inference paths it says whether a retry can help.
pub(crate) fn error(error: &ApiError, request_id: &HeaderValue, inference: bool) -> Response<Answer> {
    finished(error, request_id, &error.body(text(request_id)), inference)
}

/// An error at one of the [`Endpoint`]s, in the shape that its clients read.
pub(crate) fn error_at(endpoint: Endpoint, error: &ApiError, request_id: &HeaderValue) -> Response<Answer> {
    let mut body = error.body(text(request_id));
    if endpoint.types_errors() {
        body["type"] = "error".into();
    }
    finished(error, request_id, &body, true)
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

fn finished(error: &ApiError, request_id: &HeaderValue, body: &Value, inference: bool) -> Response<Answer> {
    let body = body.to_string();
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json(status, request_id, body);
    let headers = answer.headers_mut();
    if let Some(seconds) = error.retry_after_sec {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if let Some(ms) = error.retry_after_ms {
        headers.insert(&RETRY_AFTER_MS, ms.into());
    }
    if inference {
        should_retry(headers, error.should_retry());
    }
    answer
}

/// Marks an answer of the simulator, whose content means nothing.
pub(crate) fn simulated(headers: &mut HeaderMap) {
    headers.insert(&X_GANTRY_SIMULATOR, HeaderValue::from_static("true"));
}

pub(crate) fn should_retry(headers: &mut HeaderMap, retry: bool) {
    headers.insert(&X_SHOULD_RETRY, HeaderValue::from_static(if retry { "true" } else { "false" }));
}

/// An accepted or generated request id as text.
pub(crate) fn text(request_id: &HeaderValue) -> &str {
    // Both kinds are ASCII.
    request_id.to_str().unwrap_or_default()
}
