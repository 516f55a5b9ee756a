//! Requests that end without a good answer: refused by the gateway or by the engine, or failed on the way.

use std::{sync::atomic::Ordering::Relaxed, time::Instant};

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, usage::Outcome};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;

use crate::{
    record::{
        departed::{Departed, End, Tokens},
        meter::Meter,
    },
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
        keeping::After,
    },
};

/// Most bytes of an engine's error that are read.
const MAX_ERROR_BODY: usize = 1 << 20;

/// Marks an answer to a caller who is refused again and again, see [`crate::limits::refusals`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delayed;

/// A request that is refused before it goes to an engine.
pub(crate) struct Refused {
    meter: Box<Meter>,
    error: ApiError,
}

impl Refused {
    pub(crate) fn new(meter: Box<Meter>, error: ApiError) -> Self {
        Self { meter, error }
    }

    /// Writes the row, and makes the answer.
    pub(crate) fn answer(self) -> Response<Answer> {
        let Self { mut meter, error } = self;
        let status = error.code.status();
        meter.refuse(status, outcome_of(status));
        let mut answer = answer::error_at(meter.head.endpoint, &error, &meter.origin.request_id);
        if (400..500).contains(&status)
            && !meter.caller.refusals(&meter.thread.shared).answers_now(Instant::now())
        {
            answer.extensions_mut().insert(Delayed);
        }
        answer
    }
}

/// Returns what the row calls a refusal with this status.
fn outcome_of(status: u16) -> Outcome {
    match status {
        429 | 503 => Outcome::Rejected,
        504 => Outcome::Timeout,
        500.. => Outcome::UpstreamError,
        _ => Outcome::ClientError,
    }
}

/// The refusal of a request that went to an engine.
pub(crate) struct Refusal {
    error: ApiError,
    outcome: Outcome,
    /// What it says about the engine; `None` if nothing.
    verdict: Option<Verdict>,
}

impl Refusal {
    pub(crate) fn new(error: ApiError, verdict: Option<Verdict>) -> Self {
        Self { outcome: outcome_of(error.code.status()), error, verdict }
    }

    /// The gateway shuts down.
    pub(crate) fn cut() -> Self {
        Self { error: shutting_down(), outcome: Outcome::UpstreamError, verdict: None }
    }

    /// Writes the row, and makes the answer.
    pub(crate) fn answer(self, mut departed: Departed) -> Response<Answer> {
        let Self { error, outcome, verdict } = self;
        let tokens = match outcome {
            // The engine may have worked on the request until the end.
            Outcome::Timeout => Tokens::Estimated { completion: 0 },
            _ => Tokens::None,
        };
        departed.finish(&End { status: error.code.status(), outcome, tokens, ttft: None, verdict });
        let meter = &departed.meter;
        answer::error_at(meter.head.endpoint, &error, &meter.origin.request_id)
    }
}

/// An engine's answer that is not a success.
pub(crate) struct EngineRefusal {
    pub status: StatusCode,
    retry_after: Option<HeaderValue>,
    /// Empty if it could not be read.
    pub body: Bytes,
}

/// Reads what an engine says about its refusal.
///
/// # Errors
/// The gateway shuts down.
pub(crate) async fn read_refusal(
    deadline: &mut Deadline,
    reply: Reply,
    departed: &Departed,
) -> Result<EngineRefusal, Failure> {
    let (status, retry_after) =
        (reply.answer.status(), reply.answer.headers().get(header::RETRY_AFTER).cloned());
    let body = match deadline.limit(read_all(reply, departed, MAX_ERROR_BODY)).await {
        Ok(Ok(bytes)) => bytes,
        // The body was cut off, too long or too slow: the status alone has to do.
        Ok(Err(_)) | Err(Over::TimedOut) => Bytes::new(),
        Err(Over::Cut) => return Err(Failure::Cut),
    };
    Ok(EngineRefusal { status, retry_after, body })
}

/// Brings an engine's refusal into shape.
pub(crate) fn engine_refused(mut departed: Departed, refused: EngineRefusal) -> Response<Answer> {
    let endpoint = departed.meter.head.endpoint;
    let (status, verdict) = engine_error::meant(refused.status.as_u16(), &refused.body, endpoint);
    if !(400..600).contains(&status) {
        let message = "the model's engine gave an answer of an unknown kind";
        return Refusal::new(ApiError::new(ErrorCode::BadUpstream, message), None).answer(departed);
    }
    let request_id = headers::text(&departed.meter.origin.request_id);
    let managed = departed.route.engine;
    let typed = endpoint.types_errors();
    let body = match engine_error::shape(status, &refused.body, request_id, managed, typed) {
        Shaped::Own(error) => {
            if error.code == ErrorCode::EngineKeyMismatch {
                departed.upstream.key_mismatch.store(true, Relaxed);
            }
            return Refusal::new(error, Some(verdict)).answer(departed);
        }
        Shaped::Engine(body) => body,
    };
    let (outcome, verdict) = (outcome_of(status), Some(verdict));
    departed.finish(&End { status, outcome, tokens: Tokens::None, ttft: None, verdict });
    let code = StatusCode::from_u16(status).unwrap_or(refused.status);
    let mut answer = answer::json(code, &departed.meter.origin.request_id, body);
    if departed.route.simulator {
        headers::simulated(answer.headers_mut());
    }
    headers::should_retry(answer.headers_mut(), engine_error::should_retry(status));
    if let Some(seconds) = refused.retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    answer
}

/// Why an answer was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    Broken,
    TooLong,
}

/// Reads the whole body of up to `max` bytes. The connection can be used again afterwards.
pub(crate) async fn read_all(reply: Reply, departed: &Departed, max: usize) -> Result<Bytes, Unread> {
    let Reply { mut link, answer } = reply;
    let mut body = answer.into_body();
    let mut all = Vec::new();
    loop {
        let mut next = std::pin::pin!(body.frame());
        let frame = std::future::poll_fn(|cx| {
            link.drive(cx);
            let polled = Future::poll(next.as_mut(), cx);
            if polled.is_pending() {
                departed.waits();
            }
            polled
        });
        match frame.await {
            None => break,
            Some(Err(_)) => return Err(Unread::Broken),
            Some(Ok(frame)) => {
                departed.heard(Instant::now());
                let data = frame.into_data().unwrap_or_default();
                if all.len() + data.len() > max {
                    return Err(Unread::TooLong);
                }
                all.extend_from_slice(&data);
            }
        }
    }
    departed.meter.thread.pool.put(&departed.upstream, link, After::Whole, Instant::now());
    Ok(all.into())
}

/// The answer to a request whose engine gave none.
pub(crate) fn failed(departed: Departed, failure: &Failure) -> Response<Answer> {
    let id = departed.meter.head.id;
    let refusal = match failure {
        Failure::Unreachable(error) => {
            tracing::debug!(%error, %id, "the engine can't be reached");
            let verdict = (!is_local_exhaustion(error)).then_some(Verdict::Failure);
            Refusal::new(unavailable(UNREACHABLE).retry_after(1), verdict)
        }
        Failure::Closed(error) => {
            tracing::debug!(%error, %id, "the engine closed the connection before the request was written");
            Refusal::new(unavailable(UNREACHABLE).retry_after(1), Some(Verdict::Failure))
        }
        Failure::Broken(error) => {
            tracing::debug!(%error, %id, "the engine broke the connection");
            let message =
                "the model's engine broke off before it answered; it may have begun to work on the request";
            let (error, verdict) = departed.broke_off(message);
            Refusal::new(error, verdict)
        }
        Failure::Unusable(what) => {
            // Where an engine redirects to is in its own log, not in ours: it may hold a token.
            tracing::debug!(%what, %id, "the engine's answer can't be used");
            let error = ApiError::new(ErrorCode::BadUpstream, what.to_string()).retryable(false);
            Refusal::new(error, Some(Verdict::Failure))
        }
        Failure::TimedOut => {
            let message = "the model's engine did not answer in time";
            Refusal::new(ApiError::new(ErrorCode::UpstreamTimeout, message), Some(Verdict::Failure))
        }
        Failure::Cut => Refusal::cut(),
    };
    refusal.answer(departed)
}
