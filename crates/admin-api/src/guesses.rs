//! Slows down guesses at the current password of a signed-in user, with a growing delay for each user. Addresses do not
//! count: an address says nothing about who sits at an unlocked screen.

use std::{collections::HashMap, time::Duration};

use gantry_domain::{ApiError, ErrorCode, Timestamp, UserId};
use parking_lot::Mutex;

/// Number of attempts without a delay: people mistype.
const FREE: u32 = 4;
const LONGEST: Duration = Duration::from_mins(15);
/// Time without an attempt after which a user's attempts are forgotten.
const FORGET: Duration = Duration::from_hours(1);
/// Number of users in memory from which on old ones are removed.
const MANY: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Attempts {
    n: u32,
    last: Timestamp,
}

/// Counts attempts that were not known to be right, in memory.
#[derive(Debug, Default)]
pub struct Guesses(Mutex<HashMap<UserId, Attempts>>);

impl Guesses {
    /// Counts an attempt before its password is checked, so that of many attempts at once only the free ones pass.
    ///
    /// # Errors
    /// 429 while the delay runs; that attempt is not counted.
    pub(crate) fn begin(&self, user: UserId, now: Timestamp) -> Result<(), ApiError> {
        let mut map = self.0.lock();
        if map.len() >= MANY {
            map.retain(|_, it| now.since(it.last) < FORGET);
        }
        let known = map.get(&user).copied().filter(|it| now.since(it.last) < FORGET);
        let before = known.unwrap_or(Attempts { n: 0, last: now });
        let wait = delay(before.n).checked_sub(now.since(before.last)).filter(|it| !it.is_zero());
        if let Some(wait) = wait {
            let message = "too many wrong passwords; wait before the next one";
            // Rounded up, so that a caller that comes back then is not refused again.
            return Err(ApiError::new(ErrorCode::TooManyAttempts, message)
                .retry_after(wait.as_millis().div_ceil(1000) as u64));
        }
        map.insert(user, Attempts { n: before.n.saturating_add(1), last: now });
        Ok(())
    }

    /// Records that the attempt was wrong: the delay runs from now on.
    pub(crate) fn wrong(&self, user: UserId, now: Timestamp) {
        let mut map = self.0.lock();
        if let Some(attempts) = map.get_mut(&user) {
            attempts.last = now;
        }
    }

    /// Takes back an attempt, because it is not known whether it was right.
    pub(crate) fn undecided(&self, user: UserId) {
        let mut map = self.0.lock();
        if let Some(attempts) = map.get_mut(&user) {
            attempts.n = attempts.n.saturating_sub(1);
        }
    }

    /// Records that the attempt was right: the user knows the password, so their attempts are forgotten.
    pub(crate) fn right(&self, user: UserId) {
        self.0.lock().remove(&user);
    }
}

/// Returns the delay after `n` attempts: 1, 2, 4, … seconds after the free ones.
fn delay(n: u32) -> Duration {
    match n.checked_sub(FREE) {
        None | Some(0) => Duration::ZERO,
        Some(over) => Duration::from_secs(1 << (over - 1).min(20)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_count_before_they_are_decided_and_for_their_user_only() {
        let (guesses, ada, bob) = (Guesses::default(), UserId(1), UserId(2));
        let at = |ms| Timestamp(1_000_000 + ms);
        for _ in 0..=FREE {
            guesses.begin(ada, at(0)).unwrap();
        }
        assert_eq!(guesses.begin(ada, at(1)).unwrap_err().retry_after_sec, Some(1));
        guesses.begin(bob, at(1)).unwrap();
        guesses.begin(ada, at(1000)).unwrap();
        assert_eq!(guesses.begin(ada, at(1001)).unwrap_err().retry_after_sec, Some(2));
        guesses.undecided(ada);
        guesses.begin(ada, at(2000)).unwrap();
        guesses.right(ada);
        guesses.begin(ada, at(2000)).unwrap();
        // After an hour it begins anew.
        for _ in 0..FREE {
            guesses.begin(ada, at(2000)).unwrap();
        }
        guesses.begin(ada, at(2000)).unwrap_err();
        guesses.begin(ada, at(2000 + FORGET.as_millis() as i64)).unwrap();
    }
}
