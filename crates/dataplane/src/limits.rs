//! Limits of a key: requests and tokens a minute, and requests at the same time. Atomics only; nothing waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gantry_domain::{ApiError, ErrorCode, Timestamp};

use crate::KeyEntry;

const MINUTE_NS: u64 = 60_000_000_000;

/// What a key is allowed; `None` is without limit. A limit of 0 refuses everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// Requests a minute; as many may come at once.
    pub rpm: Option<u32>,
    /// Tokens (prompt and completion) a minute. A request is admitted while the minute's tokens are not used up, and
    /// charged with what it really used when it ends.
    pub tpm: Option<u32>,
    /// Requests at the same time.
    pub max_concurrency: Option<u32>,
}

/// What a key has used; outlives the catalog snapshots.
#[derive(Debug)]
pub struct KeyState {
    born: Instant,
    /// Theoretical arrival times of [`gcra`], nanoseconds since `born`.
    requests: AtomicU64,
    tokens: AtomicU64,
    in_flight: AtomicU32,
    /// Milliseconds since the epoch; 0 if it was not used since start.
    last_used: AtomicI64,
}

impl Default for KeyState {
    fn default() -> Self {
        Self {
            born: Instant::now(),
            requests: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            last_used: AtomicI64::new(0),
        }
    }
}

impl KeyState {
    /// When a request last passed authentication, if it did since start; for the batched `last_used_at`.
    pub fn last_used(&self) -> Option<Timestamp> {
        Some(self.last_used.load(Relaxed)).filter(|ms| *ms != 0).map(Timestamp)
    }

    /// Requests that run now.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    pub(crate) fn touch(&self, now: Timestamp) {
        self.last_used.store(now.0, Relaxed);
    }

    /// Charges what a request used. May leave the key in debt, which later requests wait for.
    pub fn charge_tokens(&self, limits: &KeyLimits, tokens: u64, now: Instant) {
        let Some(tpm) = limits.tpm.filter(|it| *it > 0) else { return };
        let now = self.nanos(now);
        let cost = tokens.saturating_mul(MINUTE_NS / u64::from(tpm));
        // Both closures always give a value, so the update can't fail.
        let _ = self.tokens.fetch_update(Relaxed, Relaxed, |tat| Some(tat.max(now).saturating_add(cost)));
    }

    fn take_request(&self, rpm: u32, now: u64) -> Result<(), Duration> {
        let period = period(rpm)?;
        let mut tat = self.requests.load(Relaxed);
        loop {
            let next = gcra(tat, now, period, u64::from(rpm), 1).map_err(Duration::from_nanos)?;
            match self.requests.compare_exchange_weak(tat, next, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => tat = seen,
            }
        }
    }

    fn check_tokens(&self, tpm: u32, now: u64) -> Result<(), Duration> {
        let next = gcra(self.tokens.load(Relaxed), now, period(tpm)?, u64::from(tpm), 1);
        next.map(drop).map_err(Duration::from_nanos)
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.born).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A place among the key's concurrent requests, given back on drop.
#[derive(Debug)]
pub struct Permit(Arc<KeyEntry>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Admits a request, or says which limit refuses it.
///
/// # Errors
/// 429 `rate_limit_exceeded` with `Retry-After`.
pub fn admit(key: &Arc<KeyEntry>, now: Instant) -> Result<Permit, ApiError> {
    let (limits, state) = (&key.limits, &key.state);
    let running = state.in_flight.fetch_add(1, Relaxed);
    let permit = Permit(Arc::clone(key));
    if limits.max_concurrency.is_some_and(|max| running >= max) {
        return Err(refused("requests at the same time", Duration::from_secs(1)));
    }
    if limits.rpm.is_none() && limits.tpm.is_none() {
        return Ok(permit);
    }
    let now = state.nanos(now);
    if let Some(tpm) = limits.tpm {
        state.check_tokens(tpm, now).map_err(|wait| refused("tokens a minute", wait))?;
    }
    if let Some(rpm) = limits.rpm {
        state.take_request(rpm, now).map_err(|wait| refused("requests a minute", wait))?;
    }
    Ok(permit)
}

/// Generic cell rate algorithm (ITU-T I.371, virtual scheduling). `tat` is the theoretical arrival time so far,
/// `period` the time that one unit of cost takes to be earned back, `burst` how many units may be spent at once.
/// All times share one unit and origin. Gives the new `tat`.
///
/// # Errors
/// The time to wait until `cost` fits.
pub fn gcra(tat: u64, now: u64, period: u64, burst: u64, cost: u64) -> Result<u64, u64> {
    let next = tat.max(now).saturating_add(period.saturating_mul(cost));
    let allowed = now.saturating_add(period.saturating_mul(burst));
    if next <= allowed { Ok(next) } else { Err(next - allowed) }
}

fn period(per_minute: u32) -> Result<u64, Duration> {
    match per_minute {
        0 => Err(Duration::from_mins(1)),
        n => Ok(MINUTE_NS / u64::from(n)),
    }
}

fn refused(what: &str, wait: Duration) -> ApiError {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    ApiError::new(ErrorCode::RateLimitExceeded, format!("this key's limit of {what} is used up"))
        .retry_after(seconds.max(1))
}
