//! The answer of an operation that sends server-sent events, and what all such streams do alike.

use std::{convert::Infallible, marker::PhantomData, time::Duration};

use axum::{
    body::Body,
    http::{
        HeaderName,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use futures_util::Stream;
use gantry_domain::schema::Shape;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::{
    operation::{Doc, Output},
    session,
};

/// How long a browser waits after a broken connection before it comes back, in milliseconds.
pub(crate) const RETRY_MS: u32 = 2000;
/// Longest time without an event before a comment is sent, so that nothing on the way takes the connection for dead.
pub(crate) const COMMENT_EVERY: Duration = Duration::from_secs(15);
pub(crate) const COMMENT: &str = ": still here\n\n";
pub(crate) const KIND: &str = "text/event-stream";

/// Server-sent events of the type `M`, for as long as the reader stays.
pub(crate) struct EventStream<M> {
    body: Body,
    has_end: bool,
    kind: PhantomData<M>,
}

/// Marks an answer whose events have an end of their own: a gateway that stops lets it come to that.
#[derive(Debug, Clone, Copy)]
pub struct HasEnd;

impl<M> EventStream<M> {
    pub(crate) fn of(texts: impl Stream<Item = Result<String, Infallible>> + Send + 'static) -> Self {
        Self { body: Body::from_stream(texts), has_end: false, kind: PhantomData }
    }

    /// One that ends by itself.
    pub(crate) fn with_end(texts: impl Stream<Item = Result<String, Infallible>> + Send + 'static) -> Self {
        Self { has_end: true, ..Self::of(texts) }
    }
}

impl<M> IntoResponse for EventStream<M> {
    fn into_response(self) -> Response {
        let mut response = (headers(), self.body).into_response();
        if self.has_end {
            response.extensions_mut().insert(HasEnd);
        }
        response
    }
}

impl<M: Shape> Output for EventStream<M> {
    fn describe(doc: &mut Doc) {
        let schema = M::schema(&mut doc.components);
        doc.answered_with(KIND, "One event after the other.", schema);
    }
}

/// Headers of every answer that is a stream of events. nginx gathers events unless it is told not to.
pub(crate) fn headers() -> [(HeaderName, &'static str); 3] {
    [(CONTENT_TYPE, KIND), (CACHE_CONTROL, "no-cache"), (HeaderName::from_static("x-accel-buffering"), "no")]
}

/// When a stream checks whether its session is still valid.
pub(crate) fn checks() -> Interval {
    let mut check = interval(session::CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    check
}
