//! Circuit breaker of one upstream: keeps requests away from an engine that fails, and lets exactly one through to
//! see whether it is back.
//!
//! Closed → (5 failures in a row) → open for 30 s → one trial → closed or open again. Every change begins a new epoch;
//! a result that belongs to an older epoch changes nothing. Times are [`Instant`]s handed in by the caller, so that
//! a clock that is set can't open or close it, and tests need not wait.
//!
//! [`Verdict::Error`] is counted for each caller, as the request may be at fault: 5 in a row give that caller the pause and the
//! trial, and the others go on. When they come to so many that the engine must be at fault
//! ([`crate::evidence::Complaint::holds`]), it opens for all. Any success forgives everybody.

mod callers;

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

use crate::evidence::{Complaint, Who};
use callers::Callers;

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

/// How long a trial takes is unknown; a second is when asking again is worthwhile.
const TRIAL_RUNS: Duration = Duration::from_secs(1);

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
    /// Failures in a row so far, errors included.
    pub failures: u32,
    /// Callers that are given a pause of their own, while it is closed.
    pub paused: usize,
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
    /// Only for this caller.
    pub own: bool,
}

#[derive(Debug)]
pub struct Breaker {
    settings: Settings,
    /// Epoch × 2, + 1 while closed without a failure or error: then neither a request nor its success needs the lock.
    fast: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    epoch: u64,
    phase: Phase,
    opened: u64,
    /// Who got errors, while it is closed.
    callers: Callers,
    /// It opened for errors, not for failures.
    for_errors: bool,
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
        let inner = Inner {
            epoch: 0,
            phase: Phase::Closed { failures: 0 },
            opened: 0,
            callers: Callers::default(),
            for_errors: false,
        };
        Self { settings, fast: AtomicU64::new(1), inner: Mutex::new(inner) }
    }

    /// Lets a request through, as a normal one or as the trial.
    ///
    /// # Errors
    /// Open, for all or for this caller, or the trial runs already.
    pub fn enter(self: &Arc<Self>, who: Who, now: Instant) -> Result<Pass, Open> {
        let fast = self.fast.load(Acquire);
        let (epoch, own) = if fast & 1 == 1 { (fast >> 1, false) } else { self.enter_slow(who, now)? };
        Ok(Pass { breaker: Arc::clone(self), epoch, who, own, done: false })
    }

    /// The epoch, and whether it is the trial of its caller.
    fn enter_slow(&self, who: Who, now: Instant) -> Result<(u64, bool), Open> {
        let mut inner = self.lock();
        let mut own = false;
        match inner.phase {
            Phase::Closed { .. } => {
                own = inner.callers.enter(who, now).map_err(|retry_in| Open { retry_in, own: true })?;
            }
            Phase::Open { until } if now >= until => {
                inner.epoch += 1;
                inner.phase = Phase::Trial;
            }
            Phase::Open { until } => return Err(Open { retry_in: until - now, own: false }),
            Phase::Trial => return Err(Open { retry_in: TRIAL_RUNS, own: false }),
        }
        self.publish(&inner);
        Ok((inner.epoch, own))
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
            Phase::Closed { failures } => {
                (State::Closed, failures.saturating_add(inner.callers.errors()), None)
            }
            Phase::Open { until } => {
                (State::Open, self.settings.failures, Some(until.saturating_duration_since(now)))
            }
            Phase::Trial => (State::HalfOpen, self.settings.failures, None),
        };
        Snapshot { state, failures, paused: inner.callers.paused().count(), retry_in, opened: inner.opened }
    }

    fn finish(&self, pass: &Pass, verdict: Verdict, now: Instant) {
        if verdict == Verdict::Success && self.fast.load(Acquire) == pass.epoch << 1 | 1 {
            return;
        }
        let mut inner = self.lock();
        if inner.epoch == pass.epoch {
            if pass.own {
                inner.callers.cancel(pass.who, now + self.settings.cooldown);
            }
            self.apply(&mut inner, verdict, now);
        }
    }

    /// The trial ended without a verdict: the next request may try.
    fn cancel(&self, pass: &Pass, now: Instant) {
        if self.fast.load(Acquire) & 1 == 1 {
            return;
        }
        let mut inner = self.lock();
        if inner.epoch != pass.epoch {
            return;
        }
        if matches!(inner.phase, Phase::Trial) {
            inner.epoch += 1;
            inner.phase = Phase::Open { until: now };
            self.publish(&inner);
        } else if pass.own {
            inner.callers.cancel(pass.who, now);
        }
    }

    /// A request of `pass` got an error. What has to be judged, if it may be the engine's fault.
    fn error(&self, pass: &Pass, now: Instant) -> Option<Complaint> {
        let failures = self.settings.failures.max(1);
        let mut inner = self.lock();
        if inner.epoch != pass.epoch {
            return None;
        }
        match inner.phase {
            // All got errors before, and still do.
            Phase::Trial if inner.for_errors => {
                self.apply(&mut inner, Verdict::Failure, now);
                return None;
            }
            // It did not answer before, and does now.
            Phase::Trial => self.apply(&mut inner, Verdict::Success, now),
            Phase::Closed { .. } => {}
            Phase::Open { .. } => return None,
        }
        let paused = inner.callers.error(pass.who, failures, now + self.settings.cooldown);
        self.publish(&inner);
        let all: Vec<Who> = inner.callers.all().collect();
        let due = paused || all.len() >= failures as usize;
        due.then(|| Complaint { paused: inner.callers.paused().collect(), all, failures })
    }

    /// A complaint that arose in `epoch` holds.
    fn open_for_errors(&self, epoch: u64, now: Instant) {
        let mut inner = self.lock();
        if inner.epoch == epoch && matches!(inner.phase, Phase::Closed { .. }) {
            inner.for_errors = true;
            self.open(&mut inner, now);
            self.publish(&inner);
        }
    }

    fn open(&self, inner: &mut Inner, now: Instant) {
        inner.epoch += 1;
        inner.opened += 1;
        inner.phase = Phase::Open { until: now + self.settings.cooldown };
        inner.callers.forgive();
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
            inner.callers.forgive();
        } else if failures >= self.settings.failures {
            inner.for_errors = inner.for_errors && matches!(inner.phase, Phase::Trial);
            self.open(inner, now);
        } else {
            inner.phase = Phase::Closed { failures };
        }
        self.publish(inner);
    }

    fn publish(&self, inner: &Inner) {
        let clean = matches!(inner.phase, Phase::Closed { failures: 0 }) && inner.callers.is_empty();
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
    who: Who,
    /// It is the trial of its caller.
    own: bool,
    done: bool,
}

impl Pass {
    /// `holds` judges a complaint that several errors make; it is asked without a lock.
    pub fn finish(mut self, verdict: Verdict, now: Instant, holds: impl FnOnce(&Complaint) -> bool) {
        self.done = true;
        if verdict != Verdict::Error {
            self.breaker.finish(&self, verdict, now);
        } else if self.breaker.error(&self, now).is_some_and(|it| holds(&it)) {
            self.breaker.open_for_errors(self.epoch, now);
        }
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
