//! Slows down guessing: a growing delay after failed sign-ins, for each user and address and for each address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use gantry_domain::{ApiError, ErrorCode, Timestamp};

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
    last: Timestamp,
}

/// Counts failed sign-ins, in memory.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<HashMap<Who, Failures>>);

impl Throttle {
    /// # Errors
    /// 429 while the delay runs.
    pub(crate) fn check(&self, username: &str, ip: IpAddr, now: Timestamp) -> Result<(), ApiError> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = keys(username, ip)
            .iter()
            .filter_map(|(who, free)| {
                let failures = map.get(who)?;
                delay(failures.n, *free).checked_sub(now.since(failures.last))
            })
            .max()
            .filter(|wait| !wait.is_zero());
        match wait {
            None => Ok(()),
            Some(wait) => Err(ApiError::new(
                ErrorCode::TooManyAttempts,
                "too many failed sign-ins; wait before the next one",
            )
            // Rounded up: who comes back then must not be refused again.
            .retry_after(wait.as_millis().div_ceil(1000) as u64)),
        }
    }

    pub(crate) fn failed(&self, username: &str, ip: IpAddr, now: Timestamp) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() >= MAX_ENTRIES {
            map.retain(|_, it| now.since(it.last) < FORGET);
            if map.len() >= MAX_ENTRIES {
                map.clear();
            }
        }
        for (who, _) in keys(username, ip) {
            let entry = map.entry(who).or_insert(Failures { n: 0, last: now });
            let n = if now.since(entry.last) >= FORGET { 0 } else { entry.n };
            *entry = Failures { n: n.saturating_add(1), last: now };
        }
    }

    pub(crate) fn succeeded(&self, username: &str, ip: IpAddr) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.remove(&Who::User(username.to_lowercase(), ip));
    }
}

fn keys(username: &str, ip: IpAddr) -> [(Who, u32); 2] {
    let ip = network(ip);
    [
        (Who::User(username.chars().take(64).collect::<String>().to_lowercase(), ip), FREE_PER_USER),
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

    #[test]
    fn the_delay_grows_and_ends_and_hits_nobody_else() {
        let throttle = Throttle::default();
        let (ip, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for second in 0..7 {
            throttle.failed("Ada", ip, Timestamp(second * 1000));
        }
        // The seventh failure is the third that counts: 4 s from second 6.
        let wait = throttle.check("ada", ip, Timestamp(7_000)).unwrap_err().retry_after_sec;
        assert_eq!(wait, Some(3));
        let wait = throttle.check("ada", ip, Timestamp(7_001)).unwrap_err().retry_after_sec;
        assert_eq!(wait, Some(3), "2.999 s are not over after 2");
        assert!(throttle.check("ada", other, Timestamp(7_000)).is_ok());
        assert!(throttle.check("bob", ip, Timestamp(7_000)).is_ok());
        assert!(throttle.check("ada", ip, Timestamp(10_000)).is_ok());
        throttle.succeeded("ada", ip);
        assert!(throttle.check("ada", ip, Timestamp(7_000)).is_ok());
    }

    #[test]
    fn many_names_from_one_address_are_slowed_too() {
        let throttle = Throttle::default();
        let ip = IpAddr::from([192, 0, 2, 1]);
        for n in 0..25 {
            throttle.failed(&format!("user{n}"), ip, Timestamp(0));
        }
        assert!(throttle.check("another", ip, Timestamp(1)).is_err());
    }
}
