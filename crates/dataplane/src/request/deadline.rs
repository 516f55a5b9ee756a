//! One timer for each request, whatever it waits for. Moving it later costs nothing: the timer is only armed again
//! when it goes off too early.

use std::{
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::time::Sleep;

use crate::thread_state::{ShutdownPhase, ThreadState};

/// Why waiting ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    TimedOut,
    /// The gateway shuts down and gives requests no more time.
    Cut,
}

pub(crate) struct Deadline {
    thread: Rc<ThreadState>,
    at: Instant,
    /// `None` until something has to be waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    pub(crate) fn new(thread: Rc<ThreadState>, at: Instant) -> Self {
        Self { thread, at, timer: None }
    }

    pub(crate) fn set(&mut self, at: Instant) {
        if let Some(timer) = &mut self.timer
            && at < self.at
        {
            timer.as_mut().reset(at.into());
        }
        self.at = at;
    }

    /// Is ready when the deadline has passed, or when the gateway cuts requests off.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        if self.thread.phase() == ShutdownPhase::Cut {
            return Poll::Ready(Over::Cut);
        }
        let at = self.at;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= at {
                return Poll::Ready(Over::TimedOut);
            }
            timer.as_mut().reset(at.into());
        }
        Poll::Pending
    }

    /// Returns what `future` gives, unless the deadline comes first.
    pub(crate) async fn limit<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Over> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => self.poll(cx).map(Err),
        })
        .await
    }

    /// Sets the deadline to `after` from now.
    pub(crate) fn restart(&mut self, after: Duration) {
        self.set(Instant::now() + after);
    }
}
