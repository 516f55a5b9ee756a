//! Circuit breaker of one upstream: keeps requests away from an engine that fails, and lets exactly one through to
//! see whether it is back.
//!
//! Closed → (5 failures in a row) → open for 30 s → one trial → closed or open again. Every change begins a new epoch;
//! a result that belongs to an older epoch changes nothing. Times are [`Instant`]s handed in by the caller, so that
//! setting the clock can't open or close it, and tests need not wait.
//!
//! A complete, well-formed 500 ([`Verdict::Error`]) is a failure like others, but it comes from an engine that lives,
//! and often the request is at fault. One client must not take a healthy model from all others with such requests: if
//! only errors opened the breaker, and only a few callers got them, it is open for those callers only. Requests of the
//! others go on: a success closes the breaker, and another caller who gets an error is kept away as well. When more
//! than a few callers have got errors, it is open for all.

mod blame;

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use crate::caller_id::CallerId;
use blame::Blame;

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
    /// Connect error, reset, nothing before the timeout, 502, 504, a 500 that is not well-formed, or an answer that broke
    /// off.
    Failure,
    /// A complete and well-formed 500: the engine lives, and it or the request is at fault.
    Error,
}

/// Retry time while a trial runs. How long a trial takes is unknown; after a second, asking again is worthwhile.
const TRIAL_RUNS: Duration = Duration::from_secs(1);

/// The state of a breaker, as metrics and records show it.
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
    /// Open or half open, but only for those whose requests got errors.
    pub for_some: bool,
    /// While open: the time until the next trial is let through; zero if it is due.
    pub retry_in: Option<Duration>,
    /// How often it opened.
    pub opened: u64,
}

/// A request was refused, because the breaker is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Time until the next trial.
    pub retry_in: Duration,
    /// The breaker is open only for this caller, and perhaps a few more.
    pub for_some: bool,
}

/// Keeps requests from an engine that fails, and lets one through at intervals to find out whether it works again.
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
    /// What the failures in a row were.
    blame: Blame,
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
    /// Makes a closed breaker.
    pub fn new(settings: Settings) -> Self {
        let phase = Phase::Closed { failures: 0 };
        let inner = Inner { epoch: 0, phase, opened: 0, blame: Blame::default() };
        Self { settings, fast: AtomicU64::new(1), inner: Mutex::new(inner) }
    }

    /// Lets a request through, as a normal one or as the trial.
    ///
    /// # Errors
    /// The breaker is open, for all or for this caller, or its trial runs already.
    pub fn enter(self: &Arc<Self>, caller: CallerId, now: Instant) -> Result<Pass, Open> {
        let fast = self.fast.load(Acquire);
        let (epoch, trial) = if fast & 1 == 1 { (fast >> 1, false) } else { self.enter_slow(caller, now)? };
        Ok(Pass { breaker: Arc::clone(self), epoch, caller, trial, done: false })
    }

    /// Returns the epoch, and whether the request is the trial.
    fn enter_slow(&self, caller: CallerId, now: Instant) -> Result<(u64, bool), Open> {
        let mut inner = self.lock();
        if !inner.blame.concerns(caller) {
            return Ok((inner.epoch, false));
        }
        let for_some = !inner.blame.is_for_all();
        match inner.phase {
            Phase::Closed { .. } => Ok((inner.epoch, false)),
            Phase::Open { until } if now >= until => {
                inner.epoch += 1;
                inner.phase = Phase::Trial;
                self.publish(&inner);
                Ok((inner.epoch, true))
            }
            Phase::Open { until } => Err(Open { retry_in: until - now, for_some }),
            Phase::Trial => Err(Open { retry_in: TRIAL_RUNS, for_some }),
        }
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
            Phase::Closed { .. } | Phase::Trial => self.apply(&mut inner, verdict, None, now),
            Phase::Open { until } if now >= until => {
                inner.phase = Phase::Trial;
                self.apply(&mut inner, verdict, None, now);
            }
            Phase::Open { .. } => {}
        }
    }

    /// Returns the state at `now`, for metrics and records.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let inner = self.lock();
        let (state, failures, retry_in) = match inner.phase {
            Phase::Closed { failures } => (State::Closed, failures, None),
            Phase::Open { until } => {
                (State::Open, self.settings.failures, Some(until.saturating_duration_since(now)))
            }
            Phase::Trial => (State::HalfOpen, self.settings.failures, None),
        };
        let for_some = state != State::Closed && !inner.blame.is_for_all();
        Snapshot { state, failures, for_some, retry_in, opened: inner.opened }
    }

    fn finish(&self, pass: &Pass, verdict: Verdict, now: Instant) {
        if verdict == Verdict::Success && self.fast.load(Acquire) == pass.epoch << 1 | 1 {
            return;
        }
        let mut inner = self.lock();
        if inner.epoch == pass.epoch {
            self.apply(&mut inner, verdict, Some(pass), now);
        }
    }

    /// The trial ended without a verdict: the next request may try.
    fn cancel(&self, pass: &Pass, now: Instant) {
        if !pass.trial {
            return;
        }
        let mut inner = self.lock();
        if inner.epoch == pass.epoch && matches!(inner.phase, Phase::Trial) {
            inner.epoch += 1;
            inner.phase = Phase::Open { until: now };
            self.publish(&inner);
        }
    }

    /// A verdict on the present epoch, of a request or (without one) of a probe.
    fn apply(&self, inner: &mut Inner, verdict: Verdict, pass: Option<&Pass>, now: Instant) {
        let is_trial = matches!(inner.phase, Phase::Trial) && pass.is_none_or(|it| it.trial);
        if verdict == Verdict::Success {
            if !matches!(inner.phase, Phase::Closed { .. }) {
                inner.epoch += 1;
            }
            inner.phase = Phase::Closed { failures: 0 };
            inner.blame = Blame::default();
            self.publish(inner);
            return;
        }
        if is_trial && verdict == Verdict::Error && inner.blame.is_of_the_engine() {
            // The engine did not answer before, and does now.
            inner.blame = Blame::default();
        }
        let was_for_all = inner.blame.is_for_all();
        match (verdict, pass) {
            (Verdict::Error, Some(pass)) => inner.blame.add(pass.caller),
            _ => inner.blame.add_engine(),
        }
        match inner.phase {
            Phase::Closed { failures } if failures + 1 < self.settings.failures => {
                inner.phase = Phase::Closed { failures: failures + 1 };
            }
            Phase::Closed { .. } => self.open(inner, now),
            // The trial failed, or an error of one more caller opens the breaker for all.
            Phase::Open { .. } | Phase::Trial if is_trial || inner.blame.is_for_all() && !was_for_all => {
                self.open(inner, now);
            }
            Phase::Open { .. } | Phase::Trial => {}
        }
        self.publish(inner);
    }

    fn open(&self, inner: &mut Inner, now: Instant) {
        inner.epoch += 1;
        inner.opened += 1;
        inner.phase = Phase::Open { until: now + self.settings.cooldown };
    }

    fn publish(&self, inner: &Inner) {
        let clean = matches!(inner.phase, Phase::Closed { failures: 0 });
        self.fast.store(inner.epoch << 1 | u64::from(clean), Release);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.inner.lock()
    }
}

/// A request on its way. Dropped without a verdict (the client left), it says nothing about the engine; if it was the
/// trial, the next request becomes the trial.
#[derive(Debug)]
#[must_use]
pub struct Pass {
    breaker: Arc<Breaker>,
    epoch: u64,
    caller: CallerId,
    trial: bool,
    done: bool,
}

impl Pass {
    /// Reports how the request ended.
    pub fn finish(mut self, verdict: Verdict, now: Instant) {
        self.done = true;
        self.breaker.finish(&self, verdict, now);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.done {
            self.breaker.cancel(self, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
