//! Slows down guessing, and bounds what sign-ins write. A sign-in that failed delays the next one: of the same user
//! from the same address, of any user from that address, and of the user from anywhere. A stranger who guesses from
//! many addresses must not lock a user out, so the last of these delays does not count at addresses where that user has
//! signed in before, nor on this machine.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use gantry_domain::{ApiError, ErrorCode, Timestamp, limit::gcra, name};
use parking_lot::{Mutex, MutexGuard};

/// Number of failures without a delay: people mistype.
const FREE_PER_USER: u32 = 4;
const FREE_PER_ADDRESS: u32 = 20;
/// Number of failures without a delay, for one account from all addresses.
const FREE_PER_ACCOUNT: u32 = 20;
const LONGEST: Duration = Duration::from_mins(15);
const LONGEST_OF_ACCOUNT: Duration = Duration::from_mins(1);
/// Most failures from one address within [`WINDOW`], for any users.
const IN_WINDOW: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Time without a failure after which the earlier ones are forgotten.
const FORGET: Duration = Duration::from_hours(1);
/// How long an address counts as known after a user signed in from it.
const KNOWN: Duration = Duration::from_hours(30 * 24);
/// Most sign-ins of one user at once; one more is allowed in each [`SIGN_IN_EVERY`]. Each writes a row of the audit
/// log.
const SIGN_INS: u64 = 100;
const SIGN_IN_EVERY: Duration = Duration::from_secs(6);
/// Most audit rows at once about failed sign-ins of all users; one more is allowed in each [`ROW_EVERY`].
const ROWS: u64 = 300;
const ROW_EVERY: Duration = Duration::from_secs(1);
/// Most entries in memory. An attacker with more addresses than that only makes the gateway forget sooner.
const MAX_ENTRIES: usize = 30_000;

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
enum Who {
    User(String, IpAddr),
    Address(IpAddr),
    Account(String),
}

#[derive(Debug, Clone)]
struct Failures {
    n: u32,
    /// How many of these are guesses that are still being checked.
    open: u32,
    last: Timestamp,
    /// Times of the last failures, oldest first, for the rule of [`WINDOW`]; empty where that rule does not apply.
    recent: VecDeque<Timestamp>,
}

#[derive(Debug, Default)]
struct Memory {
    failures: HashMap<Who, Failures>,
    /// When a user last signed in from an address.
    known: HashMap<(String, IpAddr), Timestamp>,
    /// Theoretical arrival times ([`gcra`]) of sign-ins, by user, in ms.
    sign_ins: HashMap<String, u64>,
    /// Theoretical arrival time of the audit rows about failures, in ms.
    rows: u64,
    /// Failures since the last audit row that have no row of their own.
    without_row: u64,
}

/// Counts sign-ins, in memory.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<Memory>);

/// A guess that counts as a failure until it is known not to be one. A guess that is given up goes on counting.
#[derive(Debug)]
#[must_use]
pub(crate) struct Attempt<'a> {
    throttle: &'a Throttle,
    at: Timestamp,
    user: String,
    ip: IpAddr,
    /// Where the guess was counted, each with the time of the failure before.
    counted: Vec<(Who, Option<Timestamp>)>,
}

impl Throttle {
    /// Counts a guess before it is checked, so that guesses at the same time do not all pass. `now` comes from a clock
    /// that nobody can set.
    ///
    /// # Errors
    /// 429 while the delay runs; the guess does not count then.
    pub(crate) fn attempt(
        &self,
        username: &str,
        ip: IpAddr,
        now: Timestamp,
    ) -> Result<Attempt<'_>, ApiError> {
        let mut memory = self.lock();
        let (user, ip) = (folded(username), network(ip));
        memory.may_sign_in(&user, now)?;
        memory.may_guess(&user, ip, now)?;
        memory.make_room(now);
        let all = [Who::User(user.clone(), ip), Who::Address(ip), Who::Account(user.clone())];
        let counted = all.map(|who| {
            let before = memory.failures.remove(&who).filter(|it| now.since(it.last) < FORGET);
            let last = before.as_ref().map(|it| it.last);
            let mut failures =
                before.unwrap_or(Failures { n: 0, open: 0, last: now, recent: VecDeque::new() });
            failures.n = failures.n.saturating_add(1);
            failures.open = failures.open.saturating_add(1);
            failures.last = now;
            if matches!(who, Who::Address(_)) {
                failures.recent.push_back(now);
                // Open attempts may be taken back, so no failure is dropped to make room for them.
                while failures.recent.len() > IN_WINDOW + failures.open as usize {
                    failures.recent.pop_front();
                }
            }
            memory.failures.insert(who.clone(), failures);
            (who, last)
        });
        drop(memory);
        Ok(Attempt { throttle: self, at: now, user, ip, counted: counted.into() })
    }

    /// Returns `Some` if a failure may have a row in the audit log, with the number of failures before it that have
    /// none.
    pub(crate) fn row_of_failure(&self, now: Timestamp) -> Option<u64> {
        let mut memory = self.lock();
        if let Ok(next) = take(memory.rows, now, ROW_EVERY, ROWS) {
            memory.rows = next;
            Some(std::mem::take(&mut memory.without_row))
        } else {
            memory.without_row = memory.without_row.saturating_add(1);
            None
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock()
    }
}

impl Memory {
    fn may_sign_in(&self, user: &str, now: Timestamp) -> Result<(), ApiError> {
        let before = self.sign_ins.get(user).copied().unwrap_or_default();
        take(before, now, SIGN_IN_EVERY, SIGN_INS).map(drop).map_err(|wait| {
            refused("too many sign-ins of this user; a session lasts for hours, use it again", wait)
        })
    }

    fn may_guess(&self, user: &str, ip: IpAddr, now: Timestamp) -> Result<(), ApiError> {
        let longest =
            |settled| self.waits(user, ip, now, settled).into_iter().max().filter(|it| !it.is_zero());
        if longest(false).is_none() {
            return Ok(());
        }
        Err(match longest(true) {
            Some(wait) => refused("too many failed sign-ins; wait before the next one", wait),
            // It is not known yet whether the open attempts fail.
            None => refused(
                "too many sign-ins at once are still being checked; wait a moment",
                Duration::from_secs(1),
            ),
        })
    }

    /// Returns how long each rule makes the next guess wait. With `settled`, only guesses that are known to have failed
    /// count.
    fn waits(&self, user: &str, ip: IpAddr, now: Timestamp, settled: bool) -> Vec<Duration> {
        let known = self.known.get(&(user.to_owned(), ip)).is_some_and(|it| now.since(*it) < KNOWN);
        let rules = [
            (Who::User(user.to_owned(), ip), FREE_PER_USER, LONGEST, true),
            (Who::Address(ip), FREE_PER_ADDRESS, LONGEST, !known),
            (
                Who::Account(user.to_owned()),
                FREE_PER_ACCOUNT,
                LONGEST_OF_ACCOUNT,
                !known && !ip.is_loopback(),
            ),
        ];
        let wait = |(who, free, longest, _): (Who, u32, Duration, bool)| {
            let it = self.failures.get(&who)?;
            let open = if settled { it.open } else { 0 };
            let since = now.since(it.last);
            let delay = delay(it.n.saturating_sub(open), free).min(longest).saturating_sub(since);
            let recent = it.recent.len().saturating_sub(open as usize);
            let oldest = recent.checked_sub(IN_WINDOW).and_then(|at| it.recent.get(at));
            let window = oldest.map_or(Duration::ZERO, |it| WINDOW.saturating_sub(now.since(*it)));
            Some(delay.max(window))
        };
        rules.into_iter().filter(|it| it.3).filter_map(wait).collect()
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.failures.len() >= MAX_ENTRIES {
            self.failures.retain(|_, it| now.since(it.last) < FORGET);
            if self.failures.len() >= MAX_ENTRIES {
                self.failures.clear();
            }
        }
    }

    fn succeeded(&mut self, user: &str, ip: IpAddr, now: Timestamp) {
        let before = self.sign_ins.get(user).copied().unwrap_or_default();
        let cost = SIGN_IN_EVERY.as_millis() as i64;
        self.sign_ins.insert(user.to_owned(), gcra::charge(before, ms(now), cost));
        self.known.insert((user.to_owned(), ip), now);
        // Only existing users get here, so these maps stay small by themselves.
        if self.sign_ins.len() >= MAX_ENTRIES {
            self.sign_ins.retain(|_, it| *it > ms(now));
        }
        if self.known.len() >= MAX_ENTRIES {
            self.known.retain(|_, it| now.since(*it) < FORGET);
        }
    }
}

impl Attempt<'_> {
    /// Records that the password was right: the user's failures from this address are forgotten.
    pub(crate) fn succeeded(mut self) {
        self.throttle.lock().succeeded(&self.user, self.ip, self.at);
        self.take_back(true);
    }

    /// Takes the guess back, because it was not checked.
    pub(crate) fn undone(mut self) {
        self.take_back(false);
    }

    fn take_back(&mut self, forgive: bool) {
        let mut memory = self.throttle.lock();
        for (who, before) in std::mem::take(&mut self.counted) {
            if forgive && matches!(who, Who::User(..)) {
                memory.failures.remove(&who);
                continue;
            }
            let Some(now) = memory.failures.get_mut(&who) else { continue };
            now.n = now.n.saturating_sub(1);
            now.open = now.open.saturating_sub(1);
            if let Some(at) = now.recent.iter().rposition(|it| *it == self.at) {
                now.recent.remove(at);
            }
            // The old time comes back unless another guess came meanwhile.
            if let Some(before) = before.filter(|_| now.last == self.at) {
                now.last = before;
            }
            if now.n == 0 {
                memory.failures.remove(&who);
            }
        }
    }
}

impl Drop for Attempt<'_> {
    /// Keeps the failure counted: the guess failed, or was given up.
    fn drop(&mut self) {
        if self.counted.is_empty() {
            return;
        }
        let mut memory = self.throttle.lock();
        for (who, _) in &self.counted {
            if let Some(now) = memory.failures.get_mut(who) {
                now.open = now.open.saturating_sub(1);
            }
        }
    }
}

/// Folds a user name: however it is written, the guess is at the same account.
fn folded(username: &str) -> String {
    name::folded(&username.chars().take(64).collect::<String>())
}

/// Reduces an IPv6 address to its /64: one attacker owns a whole /64, not a single address.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) if ip.is_loopback() => IpAddr::V6(ip),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
    }
}

/// Returns the delay after `n` failures: 1, 2, 4, … seconds after the free ones.
fn delay(n: u32, free: u32) -> Duration {
    match n.checked_sub(free) {
        None | Some(0) => Duration::ZERO,
        Some(over) => Duration::from_secs(1 << (over - 1).min(20)).min(LONGEST),
    }
}

/// Takes one unit of a rate of `burst` at once and one in each `period`. Returns the new theoretical arrival time in
/// ms, or the time to wait.
fn take(tat: u64, now: Timestamp, period: Duration, burst: u64) -> Result<u64, Duration> {
    let cost = period.as_millis() as u64;
    gcra::take(tat, ms(now), cost, cost * burst).map_err(Duration::from_millis)
}

fn ms(now: Timestamp) -> u64 {
    u64::try_from(now.0).unwrap_or_default()
}

fn refused(message: &str, wait: Duration) -> ApiError {
    // Rounded up, so that a caller that comes back then is not refused again.
    let seconds = wait.as_millis().div_ceil(1000) as u64;
    ApiError::new(ErrorCode::TooManyAttempts, message).retry_after(seconds)
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
    fn signing_in_buys_no_further_guesses_at_others() {
        let throttle = Throttle::default();
        throttle.attempt("mallory", ADA, Timestamp(0)).unwrap().succeeded();
        let others = |at: usize| format!("user-{at}");
        let guesses = (0..IN_WINDOW).filter(|at| guess(&throttle, &others(*at), ADA, 1_000).is_none());
        assert_eq!(guesses.count(), IN_WINDOW);
        for at in 0..5 {
            throttle.attempt("mallory", ADA, Timestamp(2_000)).unwrap().succeeded();
            assert!(guess(&throttle, &others(100 + at), ADA, 3_000).is_some());
        }
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
    fn one_address_has_ten_guesses_a_minute_whoever_they_are_about() {
        let throttle = Throttle::default();
        let mut passed = 0;
        for n in 0..600 {
            let guessed = guess(&throttle, &format!("user{n}"), ADA, n * 100);
            passed += usize::from(guessed.is_none());
            assert!(passed <= IN_WINDOW && guessed.is_none_or(|it| it <= 60), "{n}");
        }
        assert_eq!(passed, IN_WINDOW);
        assert_eq!(guess(&throttle, "another", ADA, 60_000), None, "the first is a minute ago");
        // Right passwords do not count as guesses.
        let throttle = Throttle::default();
        for n in 0..50 {
            throttle.attempt(&format!("user{n}"), ADA, Timestamp(n)).unwrap().succeeded();
        }
        for n in 0..10 {
            assert_eq!(guess(&throttle, &format!("user{n}"), ADA, 100), None);
        }
        assert_eq!(guess(&throttle, "a stranger", ADA, 100), Some(60));
        assert!(free(&throttle, "user7", ADA, 100), "that user has signed in from there");
    }

    #[test]
    fn guesses_at_one_account_from_everywhere_are_slowed_and_lock_nobody_out() {
        let throttle = Throttle::default();
        let [home, office] = [1, 2].map(|it| IpAddr::from([198, 51, 100, it]));
        throttle.attempt("ada", home, Timestamp(0)).unwrap().succeeded();
        let mut passed = 0;
        for n in 0..3_600_u32 {
            let [_, _, a, b] = n.to_be_bytes();
            let ip = IpAddr::from([10, 0, a, b]);
            passed += u32::from(guess(&throttle, "ada", ip, i64::from(n) * 1000).is_none());
        }
        // The free ones, those while the delay grows to a minute, and one a minute.
        assert!((70..=90).contains(&passed), "{passed}");
        let now = 3_600_000;
        assert!(
            free(&throttle, "ada", home, now) && free(&throttle, "ada", IpAddr::from([127, 0, 0, 1]), now)
        );
        assert!(free(&throttle, "bob", office, now));
        assert!(!free(&throttle, "ada", office, now) && free(&throttle, "ada", office, now + 60_000));
    }

    #[test]
    fn sign_ins_and_rows_about_failures_are_bounded() {
        let throttle = Throttle::default();
        let enter = |now: i64| throttle.attempt("ada", ADA, Timestamp(now)).map(Attempt::succeeded);
        for n in 0..100 {
            enter(n).unwrap();
        }
        let refused = enter(100).unwrap_err();
        assert!(refused.message.contains("too many sign-ins of this user"), "{}", refused.message);
        assert!(free(&throttle, "bob", ADA, 100));
        enter(6_000).unwrap();
        enter(6_001).unwrap_err();
        for n in 0..300 {
            assert_eq!(throttle.row_of_failure(Timestamp(n)), Some(0));
        }
        for n in 300..800 {
            assert_eq!(throttle.row_of_failure(Timestamp(n)), None);
        }
        assert_eq!(throttle.row_of_failure(Timestamp(1_800)), Some(500));
    }
}
