//! How long a connection may be silent: between two requests, and in the middle of a request's head.
//!
//! hyper has one time-out for both. A head must be there within seconds, because half a head costs its sender nothing. A
//! proxy that has used a connection keeps it for a minute and more, and a request that it sends at the moment at which the
//! gateway closes the connection is lost.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::{config::BoxError, response::answer::Answer};

/// What the next thing on a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The rest of a head; the whole one on a new connection, which has shown nothing yet that is worth waiting for.
    Head,
    /// An answer. How long that may take is decided by other time-outs.
    Answer,
    /// Another request, or none.
    Request,
}

/// What is next on a connection, noted by its reader, its writer and its service.
#[derive(Debug)]
pub(crate) struct Turn {
    next: Cell<Next>,
    /// Whether the wait of the client begins anew.
    moved: Cell<bool>,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { next: Cell::new(Next::Head), moved: Cell::new(true) }
    }

    /// Notes that the client sent something.
    pub(crate) fn read(&self) {
        if self.next.get() == Next::Request {
            self.set(Next::Head);
        }
    }

    /// Notes that the client took something; the last bytes of an answer are written after the answer has ended.
    pub(crate) fn wrote(&self) {
        self.moved.set(true);
    }

    /// Notes that a request is there. The value returned is dropped when everything of its answer has been made.
    pub(crate) fn answer(self: Rc<Self>) -> Answering {
        self.set(Next::Answer);
        Answering(self)
    }

    fn set(&self, next: Next) {
        self.next.set(next);
        self.moved.set(true);
    }
}

/// A request that is being answered.
pub(crate) struct Answering(Rc<Turn>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(Next::Request);
    }
}

/// An answer, on the connection that it goes to.
pub(crate) struct TurnAnswer {
    pub(crate) answer: Answer,
    pub(crate) _answering: Answering,
}

impl Body for TurnAnswer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.answer).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

/// The longest waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
}

/// Measures how long one client has been silent. The timer is set once and looks, when it ends, whether there was something
/// meanwhile: so it costs nothing per request.
#[derive(Debug)]
pub(crate) struct Patience {
    limits: Limits,
    since: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, since: Instant::now(), timer: None }
    }

    /// Returns whether the client has been silent for too long. Otherwise the task is woken when it may be. While
    /// `is_crowded`, an idle client gets no more time than a head does.
    pub(crate) fn is_over(
        &mut self,
        turn: &Turn,
        is_crowded: impl Fn() -> bool,
        cx: &mut Context<'_>,
    ) -> bool {
        let longest = match turn.next.get() {
            Next::Answer => return false,
            Next::Head => self.limits.head,
            Next::Request => self.limits.idle,
        };
        if turn.moved.replace(false) {
            self.since = Instant::now();
        }
        loop {
            let silent = self.since.elapsed();
            if silent >= longest || (silent >= self.limits.head && is_crowded()) {
                return true;
            }
            let next = if silent < self.limits.head { longest.min(self.limits.head) } else { longest };
            let until = (self.since + next).into();
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            // A timer that ends too early is left alone: clients that ask all the time would set it all the time.
            if timer.deadline() > until || timer.is_elapsed() {
                timer.as_mut().reset(until);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
        }
    }
}
