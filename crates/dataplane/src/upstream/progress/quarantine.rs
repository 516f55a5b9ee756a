//! Decides which requests go to an engine that is considered stalled. That may be a mistake, and it would stay
//! undiscovered if all requests waited for those that got no byte. So each caller that asks for the first time since
//! may try at once, and one caller may every few seconds.

use crate::caller_id::CallerId;

/// Most callers that may try at once: enough that others get through beside one caller with many keys, and few enough
/// for an engine that hangs to hold.
const AT_ONCE: usize = 16;
/// Milliseconds between two trials, at first and at most; the time doubles after each trial.
const EVERY: u64 = 2_000;
const EVERY_MAX: u64 = 30_000;

#[derive(Debug)]
pub(super) struct Quarantine {
    /// Since when the engine is silent.
    pub since: u64,
    tried: Vec<CallerId>,
    every: u64,
    next: u64,
}

impl Quarantine {
    pub(super) fn new(since: u64) -> Self {
        Self { since, tried: Vec::new(), every: EVERY, next: 0 }
    }

    /// Returns whether `caller` may try at `now`. The caller that tried last has to wait longer, so that others go first.
    pub(super) fn lets(&mut self, caller: CallerId, now: u64) -> bool {
        let is_new = !self.tried.contains(&caller);
        let may = if is_new && self.tried.len() < AT_ONCE {
            true
        } else if self.tried.last() == Some(&caller) {
            now >= self.next + self.every
        } else {
            now >= self.next
        };
        if may {
            self.tried(caller, now);
        }
        may
    }

    pub(super) fn tried(&mut self, caller: CallerId, now: u64) {
        self.tried.retain(|it| *it != caller);
        if self.tried.len() >= AT_ONCE {
            self.tried.remove(0);
        }
        self.tried.push(caller);
        self.next = now + self.every;
        self.every = (self.every * 2).min(EVERY_MAX);
    }

    /// Returns the milliseconds until a caller may try.
    pub(super) fn next(&self, now: u64) -> u64 {
        self.next.saturating_sub(now)
    }
}
