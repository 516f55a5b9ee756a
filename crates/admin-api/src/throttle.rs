//! Slows down guessing: a growing delay after failed sign-ins, for each user and address and for each address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use gantry_domain::{ApiError, ErrorCode, Timestamp, name};

/// Failures that cost nothing: people mistype.
const FREE_PER_USER: u32 = 4;
const FREE_PER_ADDRESS: u32 = 20;
const LONGEST: Duration = Duration::from_mins(15);
/// Without a failure for this long, all is forgotten.
const FORGET: Duration = Duration::from_hours(1);
/// Memory bound; an attacker with more addresses than that only makes us forget sooner.
const MAX_ENTRIES: usize = 20_000;

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
enum Who {
    User(String, IpAddr),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    n: u32,
    /// Of these, the guesses that nobody has looked at yet.
    open: u32,
    last: Timestamp,
}

/// Counts failed sign-ins, in memory.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<HashMap<Who, Failures>>);

/// A guess that counts as a failure until it is known to be none; one that is given up goes on counting.
#[derive(Debug)]
#[must_use]
pub(crate) struct Attempt<'a> {
    throttle: &'a Throttle,
    at: Timestamp,
    /// With what was there before.
    counted: Vec<(Who, Option<Failures>)>,
}

impl Throttle {
    /// Counts a guess before it is looked at, so that guesses at the same time do not all pass. `now` is of a clock that
    /// nobody sets.
    ///
    /// # Errors
    /// 429 while the delay runs; then it does not count.
    pub(crate) fn attempt(
        &self,
        username: &str,
        ip: IpAddr,
        now: Timestamp,
    ) -> Result<Attempt<'_>, ApiError> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = keys(username, ip);
        let runs = |n: fn(&Failures) -> u32| {
            let waits = keys.iter().filter_map(|(who, free)| {
                let failures = map.get(who)?;
                delay(n(failures), *free).checked_sub(now.since(failures.last))
            });
            waits.max().filter(|wait| !wait.is_zero())
        };
        if let Some(wait) = runs(|it| it.n) {
            // Of those that are open nobody knows yet whether they fail.
            let message = match runs(|it| it.n.saturating_sub(it.open)) {
                Some(_) => "too many failed sign-ins; wait before the next one",
                None => "too many sign-ins at once are still being checked; wait a moment",
            };
            // Rounded up: who comes back then must not be refused again.
            let seconds = wait.as_millis().div_ceil(1000) as u64;
            return Err(ApiError::new(ErrorCode::TooManyAttempts, message).retry_after(seconds));
        }
        if map.len() >= MAX_ENTRIES {
            map.retain(|_, it| now.since(it.last) < FORGET);
            if map.len() >= MAX_ENTRIES {
                map.clear();
            }
        }
        let counted = keys.map(|(who, _)| {
            let before = map.get(&who).copied().filter(|it| now.since(it.last) < FORGET);
            let (n, open) = before.map_or((0, 0), |it| (it.n, it.open));
            let failures = Failures { n: n.saturating_add(1), open: open.saturating_add(1), last: now };
            map.insert(who.clone(), failures);
            (who, before)
        });
        Ok(Attempt { throttle: self, at: now, counted: counted.into() })
    }
}

impl Attempt<'_> {
    /// It was the right password: the user's failures from there are forgotten.
    pub(crate) fn succeeded(self) {
        self.take_back(true);
    }

    /// Nobody looked at it.
    pub(crate) fn undone(self) {
        self.take_back(false);
    }

    fn take_back(mut self, forgive: bool) {
        let mut map = self.throttle.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (who, before) in std::mem::take(&mut self.counted) {
            if forgive && matches!(who, Who::User(..)) {
                map.remove(&who);
                continue;
            }
            let Some(now) = map.get_mut(&who) else { continue };
            now.n = now.n.saturating_sub(1);
            now.open = now.open.saturating_sub(1);
            // Unless another one came meanwhile.
            if let Some(before) = before.filter(|_| now.last == self.at) {
                now.last = before.last;
            }
            if now.n == 0 {
                map.remove(&who);
            }
        }
    }
}

impl Drop for Attempt<'_> {
    /// It failed, or was given up.
    fn drop(&mut self) {
        if self.counted.is_empty() {
            return;
        }
        let mut map = self.throttle.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (who, _) in &self.counted {
            if let Some(now) = map.get_mut(who) {
                now.open = now.open.saturating_sub(1);
            }
        }
    }
}

fn keys(username: &str, ip: IpAddr) -> [(Who, u32); 2] {
    let ip = network(ip);
    [
        // However it is written, it is the same account that is guessed at.
        (Who::User(name::folded(&username.chars().take(64).collect::<String>()), ip), FREE_PER_USER),
        (Who::Address(ip), FREE_PER_ADDRESS),
    ]
}

/// One attacker owns a /64 of IPv6 addresses, not one of them.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
    }
}

/// 1, 2, 4, … seconds after the free failures.
fn delay(n: u32, free: u32) -> Duration {
    match n.checked_sub(free) {
        None | Some(0) => Duration::ZERO,
        Some(over) => Duration::from_secs(1 << (over - 1).min(20)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    /// How long the next guess has to wait; a guess that may be made is one more failure.
    fn guess(throttle: &Throttle, name: &str, ip: IpAddr, now: i64) -> Option<u64> {
        throttle.attempt(name, ip, Timestamp(now)).err().map(|it| it.retry_after_sec.unwrap())
    }

    /// Whether a guess may be made, which then was never made.
    fn free(throttle: &Throttle, name: &str, ip: IpAddr, now: i64) -> bool {
        throttle.attempt(name, ip, Timestamp(now)).map(Attempt::undone).is_ok()
    }

    #[test]
    fn the_delay_grows_and_ends_and_hits_nobody_else() {
        let throttle = Throttle::default();
        let other = IpAddr::from([192, 0, 2, 2]);
        for now in [0, 0, 0, 0, 0, 2_000, 6_000] {
            assert_eq!(guess(&throttle, "Ada", ADA, now), None);
        }
        // The seventh failure is the third that counts: 4 s from second 6.
        assert_eq!(guess(&throttle, "ada", ADA, 7_000), Some(3));
        assert_eq!(guess(&throttle, "ada", ADA, 7_001), Some(3), "2.999 s are not over after 2");
        assert!(free(&throttle, "ada", other, 7_000) && free(&throttle, "bob", ADA, 7_000));
        throttle.attempt("ada", ADA, Timestamp(10_000)).unwrap().succeeded();
        assert!(free(&throttle, "ada", ADA, 10_000));
    }

    #[test]
    fn guesses_at_the_same_time_do_not_all_pass() {
        let throttle = Throttle::default();
        let passed: Vec<_> =
            (0..20).filter_map(|_| throttle.attempt("ada", ADA, Timestamp(0)).ok()).collect();
        assert_eq!(passed.len(), 5, "as one after the other");
        let said = |throttle: &Throttle| throttle.attempt("ada", ADA, Timestamp(0)).unwrap_err().message;
        assert!(said(&throttle).contains("being checked"), "nobody failed yet");
        passed.into_iter().for_each(Attempt::undone);
        for _ in 0..5 {
            drop(throttle.attempt("ada", ADA, Timestamp(0)).unwrap());
        }
        assert!(said(&throttle).contains("failed"));
        let throttle = Throttle::default();
        throttle.attempt("ada", ADA, Timestamp(0)).unwrap().undone();
        assert!(free(&throttle, "ada", ADA, 0));
    }

    #[test]
    fn an_address_of_ipv6_is_forgiven_as_one_of_ipv4() {
        let throttle = Throttle::default();
        let ip: IpAddr = "2001:db8::1:2:3:4".parse().unwrap();
        for now in [0, 0, 0, 0] {
            assert_eq!(guess(&throttle, "ada", ip, now), None);
        }
        throttle.attempt("ada", ip, Timestamp(0)).unwrap().succeeded();
        for now in [0, 0, 0, 0, 0] {
            assert_eq!(guess(&throttle, "ada", ip, now), None, "it begins anew");
        }
        assert_eq!(guess(&throttle, "ada", ip, 0), Some(1));
    }

    #[test]
    fn many_names_from_one_address_are_slowed_too() {
        let throttle = Throttle::default();
        for n in 0..21 {
            assert_eq!(guess(&throttle, &format!("user{n}"), ADA, 0), None);
        }
        assert_eq!(guess(&throttle, "another", ADA, 0), Some(1));
        assert_eq!(guess(&throttle, "another", ADA, 1_000), None);
        assert_eq!(guess(&throttle, "a third", ADA, 1_000), Some(2));
    }
}
