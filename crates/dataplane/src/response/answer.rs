//! What goes back to clients: the body type of all answers, and the ones that the gateway makes itself.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use gantry_domain::{ApiError, endpoint::Endpoint};
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;

use crate::{
    config::{BoxError, OtherBody},
    response::{errors, headers, tap::Tap},
    thread_state::{ShutdownPhase, ThreadState},
};

/// Body of an answer.
pub(crate) enum Answer {
    Whole(Bytes),
    /// From an engine.
    Tap(Box<Tap>),
    Other(OtherBody),
    /// Ends when the gateway drains.
    Events(OtherBody, Rc<ThreadState>),
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
            Self::Events(_, thread) if thread.phase() >= ShutdownPhase::Drain => Poll::Ready(None),
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

pub(crate) fn json(status: StatusCode, request_id: &HeaderValue, body: impl Into<Bytes>) -> Response<Answer> {
    let mut answer = Response::new(Answer::Whole(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers::common(answer.headers_mut(), request_id);
    answer
}

/// An error, in the shape of all errors. On inference paths it says whether a retry can help.
pub(crate) fn error(error: &ApiError, request_id: &HeaderValue, inference: bool) -> Response<Answer> {
    finished(error, request_id, &error.body(headers::text(request_id)), inference)
}

/// An error at one of the [`Endpoint`]s, in the shape that its clients read.
pub(crate) fn error_at(endpoint: Endpoint, error: &ApiError, request_id: &HeaderValue) -> Response<Answer> {
    finished(error, request_id, &errors::body_at(endpoint, error, request_id), true)
}

fn finished(error: &ApiError, request_id: &HeaderValue, body: &Value, inference: bool) -> Response<Answer> {
    let body = body.to_string();
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json(status, request_id, body);
    headers::retry(answer.headers_mut(), error);
    if inference {
        headers::should_retry(answer.headers_mut(), error.should_retry());
    }
    answer
}
