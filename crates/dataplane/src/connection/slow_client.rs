//! Closes the connection of a client that does not read its answer, or reads it drop by drop: otherwise it would hold
//! the engine, and its place among others, for ever.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::time::Sleep;

/// Fewest bytes a second that a client must take on average while it is behind.
const MIN_RATE: f64 = 1024.0;

/// Measures how fast one client takes what is written to it.
pub(crate) struct ReadRate {
    limit: Duration,
    /// Set while there is more to write than the client takes.
    behind: Option<Behind>,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Behind {
    until: Instant,
    taken: u64,
}

impl ReadRate {
    /// Makes a value that checks the rate after each `limit` in which the client was behind.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, behind: None, timer: None }
    }

    /// Notes that the client has taken everything that there was.
    pub(crate) fn caught_up(&mut self) {
        self.behind = None;
    }

    /// Returns the result of a write, or an error if the client is too slow.
    pub(crate) fn judge(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(n)) => self.took(n),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => loop {
                let now = Instant::now();
                let Some(until) = self.wait(now) else {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                };
                let timer =
                    self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until.into())));
                if timer.deadline() != until.into() {
                    timer.as_mut().reset(until.into());
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            },
        }
        written
    }

    fn took(&mut self, n: usize) {
        if let Some(behind) = &mut self.behind {
            behind.taken += n as u64;
        }
    }

    /// Returns until when the client, which takes nothing now, may go on so; `None` if it was too slow.
    fn wait(&mut self, now: Instant) -> Option<Instant> {
        let least = (self.limit.as_secs_f64() * MIN_RATE) as u64;
        if self.behind.is_some_and(|it| it.until <= now && it.taken < least.max(1)) {
            return None;
        }
        let next = Behind { until: now + self.limit, taken: 0 };
        let behind = self.behind.get_or_insert(next);
        if behind.until <= now {
            *behind = next;
        }
        Some(behind.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    /// Returns the time after which a client is given up that takes `n` bytes every `every` and always has more to
    /// read.
    fn given_up(n: usize, every: Duration) -> Option<Duration> {
        let (mut pace, begun) = (ReadRate::new(LIMIT), Instant::now());
        let (mut now, mut next) = (begun, begun + every);
        while now < begun + 20 * LIMIT {
            let Some(until) = pace.wait(now) else { return Some(now - begun) };
            if until < next {
                now = until;
            } else {
                (now, next) = (next, next + every);
                pace.took(n);
            }
        }
        None
    }

    #[test]
    fn a_client_that_takes_drops_is_given_up() {
        let second = Duration::from_secs(1);
        assert_eq!(given_up(130, second), Some(LIMIT));
        assert_eq!(given_up(0, second), Some(LIMIT));
        assert_eq!(given_up(1_100, second), None);
        // Kernels hand bytes over in large pieces, far apart.
        assert_eq!(given_up(40_000, 30 * second), None);
    }

    #[test]
    fn time_in_which_the_client_has_all_is_not_counted() {
        let (mut pace, begun) = (ReadRate::new(LIMIT), Instant::now());
        assert_eq!(pace.wait(begun), Some(begun + LIMIT));
        pace.took(10);
        pace.caught_up();
        let later = begun + 10 * LIMIT;
        assert_eq!(pace.wait(later), Some(later + LIMIT), "its answer is slow, not the client");
        assert_eq!(pace.wait(later + LIMIT), None);
    }
}
