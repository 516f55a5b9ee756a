//! Requests that end without a good answer: refused by the gateway or by the engine, or failed on the way.

use std::{sync::atomic::Ordering::Relaxed, time::Instant};

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, usage::Outcome};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;

use crate::{
    record::meter::{End, Meter, Tokens},
    request::deadline::{Deadline, Over},
    response::{
        answer::{self, Answer},
        errors::{UNREACHABLE, shutting_down, unavailable},
        headers,
    },
    upstream::{
        breaker::Verdict,
        engine_error::{self, Shaped},
        forward::{Failure, Reply, is_local_exhaustion},
    },
};

/// Most bytes of an engine's error that are read.
const MAX_ERROR_BODY: usize = 1 << 20;

/// Marks an answer to a caller who is refused again and again, see [`crate::record::refused`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delayed;

/// A refusal, and how the row calls it.
pub(crate) struct Refusal {
    pub error: ApiError,
    pub outcome: Outcome,
    pub verdict: Option<Verdict>,
}

/// An engine's answer that is not a success.
pub(crate) struct EngineRefusal {
    pub status: StatusCode,
    retry_after: Option<HeaderValue>,
    /// Empty if it could not be read.
    pub body: Bytes,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        let outcome = match error.code.status() {
            429 | 503 => Outcome::Rejected,
            504 => Outcome::Timeout,
            500.. => Outcome::UpstreamError,
            _ => Outcome::ClientError,
        };
        Self { error, outcome, verdict: None }
    }
}

/// Reads what an engine says about its refusal.
///
/// # Errors
/// The gateway shuts down.
pub(crate) async fn read_refusal(
    deadline: &mut Deadline,
    reply: Reply,
    meter: &Meter,
) -> Result<EngineRefusal, Refusal> {
    let (status, retry_after) =
        (reply.answer.status(), reply.answer.headers().get(header::RETRY_AFTER).cloned());
    let body = match deadline.limit(read_all(reply, meter, MAX_ERROR_BODY)).await {
        Ok(Ok(bytes)) => bytes,
        // The body was cut off, too long or too slow: the status alone has to do.
        Ok(Err(_)) | Err(Over::TimedOut) => Bytes::new(),
        Err(Over::Cut) => return Err(failed(&Failure::Cut, meter)),
    };
    Ok(EngineRefusal { status, retry_after, body })
}

/// Brings an engine's refusal into shape.
pub(crate) fn engine_refused(mut meter: Box<Meter>, refused: EngineRefusal) -> Response<Answer> {
    let (status, verdict) = engine_error::meant(refused.status.as_u16(), &refused.body, meter.endpoint);
    if !(400..600).contains(&status) {
        let error =
            ApiError::new(ErrorCode::BadUpstream, "the model's engine gave an answer of an unknown kind");
        return refuse_with_row(&mut meter, error.into());
    }
    let typed = meter.endpoint.types_errors();
    let (request_id, managed) = (headers::text(&meter.request_id), meter.is_managed());
    match engine_error::shape(status, &refused.body, request_id, managed, typed) {
        Shaped::Own(error) => {
            if error.code == ErrorCode::EngineKeyMismatch
                && let Some(upstream) = meter.upstream()
            {
                upstream.key_mismatch.store(true, Relaxed);
            }
            let refusal = Refusal { verdict: Some(verdict), ..error.into() };
            refuse_with_row(&mut meter, refusal)
        }
        Shaped::Engine(body) => {
            let outcome = match status {
                429 | 503 => Outcome::Rejected,
                504 => Outcome::Timeout,
                500.. => Outcome::UpstreamError,
                _ => Outcome::ClientError,
            };
            let verdict = Some(verdict);
            meter.finish(&End { status, outcome, tokens: Tokens::None, ttft: None, verdict });
            let code = StatusCode::from_u16(status).unwrap_or(refused.status);
            let mut answer = answer::json(code, &meter.request_id, body);
            if meter.is_simulated() {
                headers::simulated(answer.headers_mut());
            }
            headers::should_retry(answer.headers_mut(), engine_error::should_retry(status));
            if let Some(seconds) = refused.retry_after {
                answer.headers_mut().insert(header::RETRY_AFTER, seconds);
            }
            answer
        }
    }
}

/// Why an answer was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    Broken,
    TooLong,
}

/// Reads the whole body of up to `max` bytes. The connection can be used again afterwards.
pub(crate) async fn read_all(reply: Reply, meter: &Meter, max: usize) -> Result<Bytes, Unread> {
    let Reply { mut link, answer } = reply;
    let mut body = answer.into_body();
    let mut all = Vec::new();
    loop {
        let mut next = std::pin::pin!(body.frame());
        let frame = std::future::poll_fn(|cx| {
            link.drive(cx);
            let polled = Future::poll(next.as_mut(), cx);
            if polled.is_pending() {
                meter.waits();
            }
            polled
        });
        match frame.await {
            None => break,
            Some(Err(_)) => return Err(Unread::Broken),
            Some(Ok(frame)) => {
                meter.heard(Instant::now());
                let data = frame.into_data().unwrap_or_default();
                if all.len() + data.len() > max {
                    return Err(Unread::TooLong);
                }
                all.extend_from_slice(&data);
            }
        }
    }
    if let Some(upstream) = meter.upstream() {
        meter.thread.pool.put(upstream.id, link, Instant::now());
    }
    Ok(all.into())
}

pub(crate) fn failed(failure: &Failure, meter: &Meter) -> Refusal {
    let id = meter.id;
    let refusal = |error: ApiError, verdict| Refusal { verdict, ..error.into() };
    match failure {
        Failure::Unreachable(error) => {
            tracing::debug!(%error, %id, "the engine can't be reached");
            let verdict = (!is_local_exhaustion(error)).then_some(Verdict::Failure);
            refusal(unavailable(UNREACHABLE).retry_after(1), verdict)
        }
        Failure::Closed(error) => {
            tracing::debug!(%error, %id, "the engine closed the connection before the request was written");
            refusal(unavailable(UNREACHABLE).retry_after(1), Some(Verdict::Failure))
        }
        Failure::Broken { error, reused } => {
            tracing::debug!(%error, %id, "the engine broke the connection");
            let message =
                "the model's engine broke off before it answered; it may have begun to work on the request";
            let (error, verdict) = broke_off(meter, message);
            refusal(error, verdict.filter(|_| !reused))
        }
        Failure::TimedOut => {
            let message = "the model's engine did not answer in time";
            refusal(ApiError::new(ErrorCode::UpstreamTimeout, message), Some(Verdict::Failure))
        }
        Failure::Cut => Refusal { outcome: Outcome::UpstreamError, ..shutting_down().into() },
    }
}

/// Returns the error for a client whose engine broke off, and the breaker's verdict. `message` is used if nothing more
/// is known.
pub(crate) fn broke_off(meter: &Meter, message: &str) -> (ApiError, Option<Verdict>) {
    match meter.ended_on_purpose() {
        Some(error) => (error, None),
        None => (unavailable(message), Some(Verdict::Failure)),
    }
}

pub(crate) fn refuse_with_row(meter: &mut Meter, refusal: Refusal) -> Response<Answer> {
    let Refusal { error, outcome, verdict } = refusal;
    let status = error.code.status();
    let tokens = match (outcome, meter.upstream()) {
        // The engine may have worked on the request until the end.
        (Outcome::Timeout, Some(_)) => Tokens::Estimated { completion: 0 },
        _ => Tokens::None,
    };
    let own_doing = (400..500).contains(&status) && meter.upstream().is_none();
    meter.finish(&End { status, outcome, tokens, ttft: None, verdict });
    let mut answer = answer::error_at(meter.endpoint, &error, &meter.request_id);
    if own_doing && !meter.caller.refusals(&meter.thread.shared).answers_now(Instant::now()) {
        answer.extensions_mut().insert(Delayed);
    }
    answer
}
