//! Limits the cost of refusals. A refused request (over a limit, from a wrong address, or malformed) uses up no limit.
//! Without the bounds below, a caller could send refused requests as fast as it likes. For each caller:
//!
//! - the first refusals have a row of their own; further ones of the same kind share a row, which says how many they are
//! - there are at most [`BURST`] rows at once and [`ROWS_PER_SECOND`] of them in the long run, of both kinds together
//! - beyond [`ANSWERS_PER_SECOND`], an answer comes [`DELAY`] later and ends its connection
//!
//! Lines of the access log go with the rows. The bounds are those of the process; the shared rows are counted by each
//! thread and written at its next tick, so that a gateway that is killed loses the counts of the last moments. Requests
//! that were sent to an engine are never counted here.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_domain::limit::gcra;

use super::clock::nanos;

/// Most rows a second of one caller's refusals, in the long run.
const ROWS_PER_SECOND: u64 = 5;
/// Most rows at once.
const BURST: u64 = 45;
/// Part of [`BURST`] that is kept for rows that stand for several requests.
const FOR_SHARED: u64 = 5;
/// Most answers a second that are not delayed.
const ANSWERS_PER_SECOND: u64 = 50;
/// Delay of the other answers.
pub(crate) const DELAY: Duration = Duration::from_secs(1);

const SECOND: u64 = 1_000_000_000;
const ROW: u64 = SECOND / ROWS_PER_SECOND;

/// What one caller's refusals used up of their bounds, on all threads. Outlives catalogs with the state of its key or user.
#[derive(Debug, Default)]
pub struct RefusalQuota {
    rows: AtomicU64,
    answers: AtomicU64,
}

impl RefusalQuota {
    /// Returns whether a refusal may have a row of its own.
    pub(crate) fn own_row(&self, now: u64) -> bool {
        take(&self.rows, now, ROW, (BURST - FOR_SHARED) * ROW)
    }

    /// Returns whether a row that stands for several requests may be written.
    pub(crate) fn shared_row(&self, now: u64) -> bool {
        take(&self.rows, now, ROW, BURST * ROW)
    }

    /// Returns whether the answer may go at once.
    pub(crate) fn answers_now(&self, now: Instant) -> bool {
        take(&self.answers, nanos(now), SECOND / ANSWERS_PER_SECOND, SECOND)
    }
}

fn take(tat: &AtomicU64, now: u64, cost: u64, span: u64) -> bool {
    tat.fetch_update(Relaxed, Relaxed, |tat| gcra::take(tat, now, cost, span).ok()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_comes_at_once_a_caller_has_few_rows() {
        let bounds = RefusalQuota::default();
        let second = |from: u64| {
            let mut n = 0;
            for ms in 0..1000 {
                let now = from + ms * 1_000_000;
                n += (0..10).filter(|_| bounds.own_row(now)).count();
                n += usize::from(bounds.shared_row(now));
            }
            n
        };
        let first = second(0);
        assert!((45..=50).contains(&first), "{first}");
        assert!((5..=6).contains(&second(SECOND)));
        let rested = second(100 * SECOND);
        assert!((45..=50).contains(&rested), "{rested}");
    }
}
