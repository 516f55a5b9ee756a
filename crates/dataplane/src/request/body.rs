//! Reads a request body into one piece, and unpacks it if it came compressed.

use bytes::{Bytes, BytesMut};
use gantry_domain::{ApiError, ErrorCode};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::request::{
    body_memory::BodyReservation,
    coding::{self, Coding, over, too_large},
    deadline::Deadline,
};

/// Most bytes that are reserved because of `Content-Length` alone.
const MAX_RESERVED: u64 = 1 << 20;

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum Problem {
    Refused(ApiError),
    /// The client left or broke the framing. The answer can't reach it.
    Broken,
}

/// Types that curl, browsers' `fetch` and Node send for a body if the program sets none.
const UNTYPED: [&[u8]; 2] = [b"application/x-www-form-urlencoded", b"text/plain"];

/// Checks what the head says about the body. `strict` is for requests that a browser may have sent without its user's
/// knowledge: forms of other sites have other types than JSON. Otherwise, types that clients send by default pass too,
/// and the body itself shows whether it is JSON. Returns how it is compressed.
///
/// # Errors
/// 415 `unsupported_media_type`.
pub(crate) fn check_type(headers: &HeaderMap, strict: bool) -> Result<Coding, ApiError> {
    let coding = Coding::of(headers)?;
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(coding) };
    let essence = value.as_bytes().split(|it| *it == b';').next().unwrap_or_default().trim_ascii();
    let is = |it: &[u8]| essence.eq_ignore_ascii_case(it);
    if is(b"application/json") || (!strict && UNTYPED.into_iter().any(is)) {
        return Ok(coding);
    }
    Err(ApiError::new(ErrorCode::UnsupportedMediaType, "the body must be `application/json`"))
}

/// Reads up to `max` bytes, and unpacks them to up to `max` bytes. A body that comes in one frame and is not compressed
/// is not copied.
///
/// # Errors
/// 413 `request_too_large`, before anything is read if `Content-Length` says so; 408 `request_timeout`; 503
/// `request_memory_full` or `shutting_down`; 400 `invalid_request` if it can't be unpacked; or the client broke off.
pub(crate) async fn read(
    mut body: Incoming,
    coding: Coding,
    max: usize,
    reservation: &mut BodyReservation<'_>,
    deadline: &mut Deadline,
) -> Result<Bytes, Problem> {
    let declared = body.size_hint().exact();
    if declared.is_some_and(|it| it > max as u64) {
        return Err(Problem::Refused(too_large(max)));
    }
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while !body.is_end_stream() {
        let frame = match deadline.limit(body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(Problem::Broken),
            Err(why) => return Err(Problem::Refused(over(why))),
        };
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        let length = first.len() + all.len() + data.len();
        if length > max {
            return Err(Problem::Refused(too_large(max)));
        }
        reservation.grow(length).map_err(Problem::Refused)?;
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.reserve(declared.unwrap_or(0).min(MAX_RESERVED) as usize);
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data);
    }
    let body = if all.is_empty() { first } else { all.freeze() };
    if coding == Coding::Identity {
        return Ok(body);
    }
    // Decoders are large, and few requests have one.
    Box::pin(coding::unpack(&body, coding, max, reservation, deadline)).await.map_err(Problem::Refused)
}
