//! What is let through to an engine that is held to be stalled. It may be a mistake, and nobody would find out if all waited
//! for the requests that it is silent to: whoever asks for the first time since may try at once, and somebody may every
//! few seconds.

use crate::who::Who;

/// Callers who may try at once: enough that others get through beside one with many keys, few enough for an engine that hangs
/// to hold.
const AT_ONCE: usize = 16;
/// Between two trials, in milliseconds: first, and at most; it doubles.
const EVERY: u64 = 2_000;
const EVERY_MAX: u64 = 30_000;

#[derive(Debug)]
pub(super) struct Quarantine {
    /// Since when the engine is silent.
    pub since: u64,
    tried: Vec<Who>,
    every: u64,
    next: u64,
}

impl Quarantine {
    pub(super) fn new(since: u64) -> Self {
        Self { since, tried: Vec::new(), every: EVERY, next: 0 }
    }

    /// Whether `who` may try at `now`. The one who tried last lets others go before him.
    pub(super) fn lets(&mut self, who: Who, now: u64) -> bool {
        let is_new = !self.tried.contains(&who);
        let may = if is_new && self.tried.len() < AT_ONCE {
            true
        } else if self.tried.last() == Some(&who) {
            now >= self.next + self.every
        } else {
            now >= self.next
        };
        if may {
            self.tried(who, now);
        }
        may
    }

    pub(super) fn tried(&mut self, who: Who, now: u64) {
        self.tried.retain(|it| *it != who);
        if self.tried.len() >= AT_ONCE {
            self.tried.remove(0);
        }
        self.tried.push(who);
        self.next = now + self.every;
        self.every = (self.every * 2).min(EVERY_MAX);
    }

    /// Milliseconds until somebody may try.
    pub(super) fn next(&self, now: u64) -> u64 {
        self.next.saturating_sub(now)
    }
}
