//! Errors that callers got in a row, and the pause of those who got too many.

use std::time::{Duration, Instant};

use super::TRIAL_RUNS;
use crate::evidence::Who;

/// So many are remembered.
const MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Callers(Vec<Caller>);

#[derive(Debug)]
struct Caller {
    who: Who,
    errors: u32,
    pause: Pause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    None,
    Until(Instant),
    /// One of its requests tries.
    Trial,
}

impl Callers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Errors of all together.
    pub(super) fn errors(&self) -> u32 {
        self.0.iter().fold(0, |sum, it| sum.saturating_add(it.errors))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Who> {
        self.0.iter().map(|it| it.who)
    }

    pub(super) fn paused(&self) -> impl Iterator<Item = Who> {
        self.0.iter().filter(|it| it.pause != Pause::None).map(|it| it.who)
    }

    /// Whether its request is a trial.
    ///
    /// # Errors
    /// It has a pause for so long.
    pub(super) fn enter(&mut self, who: Who, now: Instant) -> Result<bool, Duration> {
        let Some(caller) = self.find(who) else { return Ok(false) };
        match caller.pause {
            Pause::None => Ok(false),
            Pause::Until(until) if now >= until => {
                caller.pause = Pause::Trial;
                Ok(true)
            }
            Pause::Until(until) => Err(until - now),
            Pause::Trial => Err(TRIAL_RUNS),
        }
    }

    /// Its trial ended without an answer: the next one may run at `next`.
    pub(super) fn cancel(&mut self, who: Who, next: Instant) {
        if let Some(caller) = self.find(who)
            && caller.pause == Pause::Trial
        {
            caller.pause = Pause::Until(next);
        }
    }

    /// It got an error; with `failures` of them it has a pause until `until`. Whether one began.
    pub(super) fn error(&mut self, who: Who, failures: u32, until: Instant) -> bool {
        if self.find(who).is_none() {
            if self.0.len() >= MAX {
                self.0.remove(self.0.iter().position(|it| it.pause == Pause::None).unwrap_or(0));
            }
            self.0.push(Caller { who, errors: 0, pause: Pause::None });
        }
        let Some(caller) = self.find(who) else { return false };
        caller.errors = caller.errors.saturating_add(1);
        let begins = caller.errors >= failures && !matches!(caller.pause, Pause::Until(_));
        if begins {
            caller.pause = Pause::Until(until);
        }
        begins
    }

    pub(super) fn forgive(&mut self) {
        self.0.clear();
    }

    fn find(&mut self, who: Who) -> Option<&mut Caller> {
        self.0.iter_mut().find(|it| it.who == who)
    }
}
