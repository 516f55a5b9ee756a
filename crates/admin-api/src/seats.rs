//! Bounds how many streams are open: streams of events, and of logs that are followed. Each stream holds a connection
//! and is checked several times a second for as long as its session lasts, so a page that forgets to close its streams,
//! or an attacker, must reach a limit.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use gantry_domain::{ApiError, ErrorCode, Role, UserId};
use parking_lot::{Mutex, MutexGuard};

use crate::error::{Outcome, Problem};

/// Most streams of one session: pages that are open side by side, and their logs.
const OF_SESSION: usize = 16;
/// Most streams of one user, who may have many sessions.
const OF_USER: usize = 48;
/// When a refused caller may come again; it is not known when a stream is closed.
const BUSY: Duration = Duration::from_secs(5);

/// All places for streams; cheap to clone.
#[derive(Debug, Clone)]
pub struct Seats {
    max: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Number of streams by the hash of the session's id; no number is 0.
    by_session: HashMap<[u8; 32], usize>,
    by_user: HashMap<UserId, usize>,
}

/// A place for one stream. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    session: [u8; 32],
    user: UserId,
}

impl Seats {
    /// Makes places for `max` streams of all sessions together.
    pub fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// Takes a place for a stream of the session or token with the hash `session`. Only administrators get the last quarter of all places, so that users can't keep them
    /// from theirs.
    ///
    /// # Errors
    /// 429 `too_many_streams` if the session or the user has all of their streams. 503 `streams_exhausted` if all sessions
    /// together have all streams.
    pub(crate) fn take(&self, session: [u8; 32], user: UserId, role: Role) -> Outcome<Seat> {
        let max = if role >= Role::Admin { self.max } else { self.max.saturating_sub(self.max / 4) };
        let mut taken = self.taken();
        let own = [
            ("this session has", taken.by_session.get(&session), OF_SESSION),
            ("you have", taken.by_user.get(&user), OF_USER),
        ];
        for (who, open, most) in own {
            if open.is_some_and(|it| *it >= most) {
                let message = format!("{who} {most} streams open, which is as many as there may be");
                return Err(busy(ErrorCode::TooManyStreams, message));
            }
        }
        if taken.all >= max {
            return Err(busy(
                ErrorCode::StreamsExhausted,
                format!("{max} streams are open, which is as many as there may be (EVENT_STREAMS_MAX)"),
            ));
        }
        taken.all += 1;
        *taken.by_session.entry(session).or_default() += 1;
        *taken.by_user.entry(user).or_default() += 1;
        Ok(Seat { seats: self.clone(), session, user })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }
}

fn busy(code: ErrorCode, message: String) -> Problem {
    Problem(ApiError::new(code, message).retry_in(BUSY))
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all = taken.all.saturating_sub(1);
        less(&mut taken.by_session, &self.session);
        less(&mut taken.by_user, &self.user);
    }
}

/// Counts one less, and forgets what is 0.
fn less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_few_places_and_administrators_keep_a_quarter() {
        let seats = Seats::new(256);
        let mut held = Vec::new();
        let mut take = |session: u8, user, role| {
            let taken = seats.take([session; 32], UserId(user), role);
            let is_taken = taken.is_ok();
            held.extend(taken);
            is_taken
        };
        let one = (0..20).flat_map(|session| [session; OF_SESSION + 1]).map(|it| take(it, 1, Role::User));
        assert_eq!(one.filter(|it| *it).count(), OF_USER);
        let others = (0..250).map(|n| take(100 + n / 16, 2 + i64::from(n), Role::User));
        assert_eq!(others.filter(|it| *it).count(), 192 - OF_USER);
        assert!(!take(99, 999, Role::OrgAdmin) && take(98, 998, Role::Admin));
        held.clear();
        let taken = seats.taken();
        assert_eq!((taken.all, taken.by_session.len(), taken.by_user.len()), (0, 0, 0));
    }
}
