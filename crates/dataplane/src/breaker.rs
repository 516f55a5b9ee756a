//! Circuit breaker of one upstream: keeps requests away from an engine that fails, and lets exactly one through to
//! see whether it is back.
//!
//! Closed → (5 failures in a row) → open for 30 s → one trial → closed or open again. Every change begins a new epoch;
//! a result that belongs to an older epoch changes nothing. Times are [`Instant`]s handed in by the caller, so that
//! a clock that is set can't open or close it, and tests need not wait.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

/// When it opens and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row that open it; at least 1.
    pub failures: u32,
    pub cooldown: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { failures: 5, cooldown: Duration::from_secs(30) }
    }
}

/// What a request or probe showed about the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A complete answer that is no failure; any 4xx, 429 and 503 included.
    Success,
    /// Connect error, reset, nothing before the timeout, 500, 502, 504, or an answer that broke off.
    Failure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Closed,
    Open,
    /// The trial runs.
    HalfOpen,
}

/// For the admin API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    pub state: State,
    /// Failures in a row so far.
    pub failures: u32,
    /// While open: until the next trial is let through; zero if it is due.
    pub retry_in: Option<Duration>,
    /// How often it opened.
    pub opened: u64,
}

/// Refused, because it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Until the next trial.
    pub retry_in: Duration,
}

#[derive(Debug)]
pub struct Breaker {
    settings: Settings,
    /// Epoch × 2, + 1 while closed without a failure: then neither a request nor its success needs the lock.
    fast: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    epoch: u64,
    phase: Phase,
    opened: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed { failures: u32 },
    Open { until: Instant },
    Trial,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Breaker {
    pub fn new(settings: Settings) -> Self {
        let inner = Inner { epoch: 0, phase: Phase::Closed { failures: 0 }, opened: 0 };
        Self { settings, fast: AtomicU64::new(1), inner: Mutex::new(inner) }
    }

    /// Lets a request through, as a normal one or as the trial.
    ///
    /// # Errors
    /// Open, or the trial runs already.
    pub fn enter(self: &Arc<Self>, now: Instant) -> Result<Pass, Open> {
        let fast = self.fast.load(Acquire);
        let epoch = if fast & 1 == 1 { fast >> 1 } else { self.enter_slow(now)? };
        Ok(Pass { breaker: Arc::clone(self), epoch, done: false })
    }

    fn enter_slow(&self, now: Instant) -> Result<u64, Open> {
        let mut inner = self.lock();
        match inner.phase {
            Phase::Closed { .. } => {}
            Phase::Open { until } if now >= until => {
                inner.epoch += 1;
                inner.phase = Phase::Trial;
            }
            Phase::Open { until } => return Err(Open { retry_in: until - now }),
            // How long the trial takes is unknown; a second is when asking again is worthwhile.
            Phase::Trial => return Err(Open { retry_in: Duration::from_secs(1) }),
        }
        self.publish(&inner);
        Ok(inner.epoch)
    }

    /// Result of a probe that did not ask [`Breaker::enter`]. Counts like a request while closed; while open it
    /// counts as the trial once the cooldown is over, and not at all before. While a request is the trial, the probe
    /// decides in its place: a stream may take very long to its end.
    pub fn record(&self, verdict: Verdict, now: Instant) {
        if verdict == Verdict::Success && self.fast.load(Acquire) & 1 == 1 {
            return;
        }
        let mut inner = self.lock();
        match inner.phase {
            Phase::Closed { .. } | Phase::Trial => self.apply(&mut inner, verdict, now),
            Phase::Open { until } if now >= until => {
                inner.phase = Phase::Trial;
                self.apply(&mut inner, verdict, now);
            }
            Phase::Open { .. } => {}
        }
    }

    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let inner = self.lock();
        let (state, failures, retry_in) = match inner.phase {
            Phase::Closed { failures } => (State::Closed, failures, None),
            Phase::Open { until } => {
                (State::Open, self.settings.failures, Some(until.saturating_duration_since(now)))
            }
            Phase::Trial => (State::HalfOpen, self.settings.failures, None),
        };
        Snapshot { state, failures, retry_in, opened: inner.opened }
    }

    fn finish(&self, epoch: u64, verdict: Verdict, now: Instant) {
        if verdict == Verdict::Success && self.fast.load(Acquire) == epoch << 1 | 1 {
            return;
        }
        let mut inner = self.lock();
        if inner.epoch == epoch {
            self.apply(&mut inner, verdict, now);
        }
    }

    /// The trial ended without a verdict: the next request may try.
    fn cancel(&self, epoch: u64, now: Instant) {
        if self.fast.load(Acquire) & 1 == 1 {
            return;
        }
        let mut inner = self.lock();
        if inner.epoch == epoch && matches!(inner.phase, Phase::Trial) {
            inner.epoch += 1;
            inner.phase = Phase::Open { until: now };
            self.publish(&inner);
        }
    }

    fn apply(&self, inner: &mut Inner, verdict: Verdict, now: Instant) {
        let failures = match inner.phase {
            Phase::Closed { failures } => failures + 1,
            // A failed trial opens at once.
            Phase::Trial => self.settings.failures.max(1),
            Phase::Open { .. } => return,
        };
        if verdict == Verdict::Success {
            if matches!(inner.phase, Phase::Trial) {
                inner.epoch += 1;
            }
            inner.phase = Phase::Closed { failures: 0 };
        } else if failures >= self.settings.failures {
            inner.epoch += 1;
            inner.opened += 1;
            inner.phase = Phase::Open { until: now + self.settings.cooldown };
        } else {
            inner.phase = Phase::Closed { failures };
        }
        self.publish(inner);
    }

    fn publish(&self, inner: &Inner) {
        let clean = matches!(inner.phase, Phase::Closed { failures: 0 });
        self.fast.store(inner.epoch << 1 | u64::from(clean), Release);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request on its way. Dropped without a verdict (the client left), it says nothing about the engine; if it was the
/// trial, the next request becomes the trial.
#[derive(Debug)]
#[must_use]
pub struct Pass {
    breaker: Arc<Breaker>,
    epoch: u64,
    done: bool,
}

impl Pass {
    pub fn finish(mut self, verdict: Verdict, now: Instant) {
        self.done = true;
        self.breaker.finish(self.epoch, verdict, now);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.done {
            self.breaker.cancel(self.epoch, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
