//! Reads a request body into one piece.

use bytes::{Bytes, BytesMut};
use gantry_domain::{ApiError, ErrorCode};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::{
    request::{
        body_memory::BodyReservation,
        deadline::{Deadline, Over},
    },
    response::errors::shutting_down,
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
/// and the body itself shows whether it is JSON.
///
/// # Errors
/// 415 `unsupported_media_type`.
pub(crate) fn check_type(headers: &HeaderMap, strict: bool) -> Result<(), ApiError> {
    let packed = |it: &HeaderValue| !it.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if headers.get_all(header::CONTENT_ENCODING).iter().any(packed) {
        let message = "the body must not be compressed: send it without `Content-Encoding`";
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message));
    }
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = value.as_bytes().split(|it| *it == b';').next().unwrap_or_default().trim_ascii();
    let is = |it: &[u8]| essence.eq_ignore_ascii_case(it);
    if is(b"application/json") || (!strict && UNTYPED.into_iter().any(is)) {
        return Ok(());
    }
    Err(ApiError::new(ErrorCode::UnsupportedMediaType, "the body must be `application/json`"))
}

/// Reads up to `max` bytes. A body that comes in one frame is not copied.
///
/// # Errors
/// 413 `request_too_large`, before anything is read if `Content-Length` says so; 408 `request_timeout`; 503
/// `request_memory_full` or `shutting_down`; or the client broke off.
pub(crate) async fn read(
    mut body: Incoming,
    max: usize,
    reservation: &mut BodyReservation<'_>,
    deadline: &mut Deadline,
) -> Result<Bytes, Problem> {
    let declared = body.size_hint().exact();
    if declared.is_some_and(|it| it > max as u64) {
        return Err(too_large(max));
    }
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while !body.is_end_stream() {
        let frame = match deadline.limit(body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(Problem::Broken),
            Err(Over::TimedOut) => {
                let message = "the body did not arrive in time";
                return Err(Problem::Refused(ApiError::new(ErrorCode::RequestTimeout, message)));
            }
            Err(Over::Cut) => return Err(Problem::Refused(shutting_down())),
        };
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        let length = first.len() + all.len() + data.len();
        if length > max {
            return Err(too_large(max));
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
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn too_large(max: usize) -> Problem {
    let message = format!("the body may have at most {max} bytes");
    Problem::Refused(ApiError::new(ErrorCode::RequestTooLarge, message))
}
