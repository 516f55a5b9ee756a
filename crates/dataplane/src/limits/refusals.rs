//! Limits the cost of refusals. A refused request (over a limit, from a wrong address, or malformed) uses up no limit.
//! Without the bounds below, a caller could send refused requests as fast as it likes. For each key, and for each user in all
//! sessions together:
//!
//! - the first refusals have a row of their own; further ones of the same kind share a row, which says how many they are
//! - there are at most [`BURST`] rows at once and [`ROWS_PER_SECOND`] of them in the long run, of both kinds together
//! - beyond [`ANSWERS_PER_SECOND`], an answer comes [`DELAY`] later and ends its connection
//!
//! A user has twice as much for all keys and sessions together, because a user may have a hundred keys, and an organisation five
//! times as much for all its users and keys.
//!
//! Lines of the access log go with the rows. The bounds are those of the process; the shared rows are counted by each
//! thread and written at its next tick, so that a gateway that is killed loses the counts of the last moments. Requests
//! that were sent to an engine are never counted here.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
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

/// How much more than a key a user and an organisation have.
const OF_USER: u64 = 2;
const OF_ORG: u64 = 5;

/// What the refusals of a key, a user or an organisation used up of their bounds, on all threads. Outlives catalogs.
#[derive(Debug, Default)]
pub struct RefusalQuota {
    rows: AtomicU64,
    answers: AtomicU64,
}

/// The bounds of a caller's refusals.
#[derive(Debug, Clone, Default)]
pub struct Refusals {
    /// Those of the key, or of the user's sessions.
    pub own: Arc<RefusalQuota>,
    /// Those of the user.
    pub user: Option<Arc<RefusalQuota>>,
    pub org: Option<Arc<RefusalQuota>>,
}

impl Refusals {
    /// Returns whether a refusal may have a row of its own.
    pub(crate) fn own_row(&self, now: u64) -> bool {
        self.all(|quota, times| take(&quota.rows, now, ROW / times, (BURST - FOR_SHARED) * ROW))
    }

    /// Returns whether a row that stands for several requests may be written.
    pub(crate) fn shared_row(&self, now: u64) -> bool {
        self.all(|quota, times| take(&quota.rows, now, ROW / times, BURST * ROW))
    }

    /// Returns whether the answer may go at once.
    pub(crate) fn answers_now(&self, now: Instant) -> bool {
        let now = nanos(now);
        self.all(|quota, times| take(&quota.answers, now, SECOND / (ANSWERS_PER_SECOND * times), SECOND))
    }

    /// Takes from all of them, the narrowest first: what it refuses costs the others nothing.
    fn all(&self, take: impl Fn(&RefusalQuota, u64) -> bool) -> bool {
        let above =
            |quota: &Option<Arc<RefusalQuota>>, times| quota.as_ref().is_none_or(|it| take(it, times));
        take(&self.own, 1) && above(&self.user, OF_USER) && above(&self.org, OF_ORG)
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
        let bounds = Refusals::default();
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

    #[test]
    fn many_keys_of_a_user_have_no_more_rows_than_two() {
        let (user, org) = (Arc::<RefusalQuota>::default(), Arc::<RefusalQuota>::default());
        let keys = |user: &Arc<RefusalQuota>| -> Vec<_> {
            let refusals = || Refusals {
                own: Arc::default(),
                user: Some(Arc::clone(user)),
                org: Some(Arc::clone(&org)),
            };
            (0..100).map(|_| refusals()).collect()
        };
        let rows = |keys: &[Refusals], now: u64| {
            (0..50).map(|_| keys.iter().filter(|it| it.own_row(now)).count()).sum::<usize>()
        };
        let (mine, now) = (keys(&user), 100 * SECOND);
        assert_eq!(rows(&mine, now), 80);
        assert_eq!(rows(&mine, now + SECOND), 10);
        // Two and a half users have what their organisation has.
        let others: Vec<_> = (0..10).flat_map(|_| keys(&Arc::default())).collect();
        assert_eq!(rows(&others, now + SECOND), 200 + 25 - 80 - 10);
    }
}
