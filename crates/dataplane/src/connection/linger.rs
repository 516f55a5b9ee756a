//! Ends a connection whose client may still be sending.
//!
//! A refusal goes out while the rest of a large body is under way. Bytes that arrive at a closed socket are answered
//! with a reset, and a reset takes from the client what it has not read yet: our answer (RFC 9112 §9.6). So only the
//! sending side is closed at first, and what arrives is thrown away for a while.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// Longest silence of the client, and longest time for the whole wait.
const QUIET: Duration = Duration::from_secs(2);
const WHOLE: Duration = Duration::from_secs(30);

/// The wait for the end of what a client sends.
#[derive(Debug)]
pub(crate) struct Linger {
    timer: Pin<Box<Sleep>>,
    end: Instant,
}

impl Linger {
    pub(crate) fn begin() -> Self {
        let now = Instant::now();
        Self { timer: Box::pin(sleep_until(now + QUIET)), end: now + WHOLE }
    }

    /// Is ready when the client has closed its side, sends nothing, or sends for too long.
    pub(crate) fn poll(&mut self, stream: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<()> {
        let mut thrown_away = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut thrown_away);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {
                    let until = self.end.min(Instant::now() + QUIET);
                    self.timer.as_mut().reset(until);
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return self.timer.as_mut().poll(cx),
            }
            if Instant::now() >= self.end {
                return Poll::Ready(());
            }
        }
    }
}
