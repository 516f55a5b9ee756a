//! The body of an answer that takes room in memory until the client has read it, or is gone.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, HttpBody},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::{body_room::Room, error::Problem, event_stream};

/// What an answer counts that is written while it is read: a part of it, and what the connection holds of it.
const WRITTEN: usize = 1 << 20;

/// Takes room for an answer; an error takes its place if there is none. Streams of events are bounded by their places.
pub(crate) fn bounded(answer: Response, mut room: Room) -> Response {
    let events = answer.headers().get(CONTENT_TYPE).is_some_and(|it| it == event_stream::KIND);
    let length = answer.body().size_hint().exact().map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    if events || length == Some(0) {
        return answer;
    }
    match room.grow(length.unwrap_or(WRITTEN)) {
        Ok(()) if room.is_empty() => answer,
        Ok(()) => answer.map(|body| Body::new(Held { body, _room: room })),
        Err(error) => Problem::from(error).into_response(),
    }
}

struct Held {
    body: Body,
    _room: Room,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
