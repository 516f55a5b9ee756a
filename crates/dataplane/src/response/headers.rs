//! Headers of answers: the request id, what all answers carry, and what errors and the simulator add.

use gantry_domain::{ApiError, web};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use uuid::Uuid;

pub(crate) static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Header on every answer of a simulated engine.
static X_GANTRY_SIMULATOR: HeaderName = HeaderName::from_static("x-gantry-simulator");
static RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
static X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
static X_SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const MAX_REQUEST_ID: usize = 128;

/// The client's request id, if it is one that may be stored and shown. A copy: the original would keep the whole
/// read buffer alive as long as the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = headers.get(&X_REQUEST_ID)?.as_bytes();
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let accepted = (1..=MAX_REQUEST_ID).contains(&value.len()) && value.iter().all(good);
    if accepted { HeaderValue::from_bytes(value).ok() } else { None }
}

/// Makes the id of a request that brought none.
pub(crate) fn new_request_id(id: Uuid) -> HeaderValue {
    let mut buffer = Uuid::encode_buffer();
    let text = id.hyphenated().encode_lower(&mut buffer);
    // Hexadecimal digits and hyphens are always accepted.
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
}

/// Headers of all answers of the data plane.
pub(crate) fn common(headers: &mut HeaderMap, request_id: &HeaderValue) {
    web::add_request_id(headers, request_id);
    web::add_security_headers(headers, "default-src 'none'; frame-ancestors 'none'");
}

/// Adds what an error says about a retry.
pub(crate) fn retry(headers: &mut HeaderMap, error: &ApiError) {
    if let Some(seconds) = error.retry_after_sec {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if let Some(ms) = error.retry_after_ms {
        headers.insert(&RETRY_AFTER_MS, ms.into());
    }
}

/// Asks proxies on the way to pass each event on when it comes: nginx waits for more without this header.
pub(crate) fn unbuffered(headers: &mut HeaderMap) {
    headers.insert(&X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
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

/// Whether an answer is made of server-sent events.
pub(crate) fn is_event_stream(content_type: &HeaderValue) -> bool {
    const KIND: &[u8] = b"text/event-stream";
    content_type.as_bytes().get(..KIND.len()).is_some_and(|it| it.eq_ignore_ascii_case(KIND))
}
