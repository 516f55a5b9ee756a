//! What an engine does with its connections after an answer, learned from those that were kept.
//!
//! Some engines close a connection after an answer although they announce to keep it (llama-server after each stream),
//! and some close idle ones after a second. Behind a port proxy such as Docker's, the end arrives late: a request that
//! is written meanwhile is lost, and nobody can tell whether the engine has begun it. So a connection is used again only
//! as it has proven to live: after an answer of its kind, and not for longer than others lived.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// An engine whose connections were open this long after an answer is believed to keep them. It is doubled with each
/// time that this was wrong, up to 64 times.
const PROBATION: Duration = Duration::from_millis(250);
const MOST_DOUBLINGS: u32 = 6;
/// What is known of the life of idle connections is forgotten after this time: the engine may have been replaced.
const REMEMBERED: Duration = Duration::from_mins(10);

/// What the last answer on a connection was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// A body whose length was known, or one that ended.
    Whole,
    /// Server-sent events.
    Stream,
}

/// Whether an idle connection may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Now,
    /// Once it has lived for longer.
    Later,
    /// Others did not live this long.
    Never,
}

/// What is known of one engine. All threads share it.
#[derive(Debug)]
pub(crate) struct Keeping {
    kinds: [Kind; 2],
    /// The shortest time, in milliseconds, after which an idle connection was closed.
    life: AtomicU32,
    /// When that was, in milliseconds since `began`.
    learned: AtomicU64,
    began: Instant,
}

#[derive(Debug, Default)]
struct Kind {
    proven: AtomicBool,
    mistakes: AtomicU32,
}

impl Keeping {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            kinds: <[Kind; 2]>::default(),
            life: AtomicU32::new(u32::MAX),
            learned: AtomicU64::new(0),
            began: now,
        }
    }

    /// Whether a connection that has been idle for `idle` may be used.
    pub(crate) fn judge(&self, after: After, idle: Duration, now: Instant) -> Use {
        if idle > self.life(now) / 2 {
            Use::Never
        } else if self.kind(after).proven.load(Relaxed) || idle >= self.probation(after) {
            Use::Now
        } else {
            Use::Later
        }
    }

    /// A connection is open `idle` after its last answer.
    pub(crate) fn lives(&self, after: After, idle: Duration) {
        let kind = self.kind(after);
        if !kind.proven.load(Relaxed) && idle >= self.probation(after) {
            kind.proven.store(true, Relaxed);
        }
    }

    /// A connection was closed that was seen open `seen` after its last answer, and not later.
    pub(crate) fn closed(&self, after: After, seen: Duration, now: Instant) {
        if seen < self.probation(after) {
            self.doubt(after);
            return;
        }
        let life = u32::try_from(seen.as_millis()).unwrap_or(u32::MAX);
        if Duration::from_millis(life.into()) < self.life(now) {
            self.life.store(life, Relaxed);
            self.learned.store(self.millis(now), Relaxed);
        }
    }

    /// A connection that was used again after `idle` broke before its engine answered.
    pub(crate) fn broke(&self, after: After, idle: Duration, now: Instant) {
        self.doubt(after);
        self.closed(after, idle, now);
    }

    fn doubt(&self, after: After) {
        let kind = self.kind(after);
        if kind.proven.swap(false, Relaxed) {
            kind.mistakes.fetch_add(1, Relaxed);
        }
    }

    fn kind(&self, after: After) -> &Kind {
        &self.kinds[after as usize]
    }

    fn probation(&self, after: After) -> Duration {
        PROBATION * (1 << self.kind(after).mistakes.load(Relaxed).min(MOST_DOUBLINGS))
    }

    /// How long idle connections live, as far as is known.
    fn life(&self, now: Instant) -> Duration {
        let life = self.life.load(Relaxed);
        if life == u32::MAX {
            return Duration::MAX;
        }
        let age = self.millis(now).saturating_sub(self.learned.load(Relaxed));
        let is_old = u128::from(age) > REMEMBERED.as_millis();
        if is_old { Duration::MAX } else { Duration::from_millis(life.into()) }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_connection_is_used_at_once_only_after_one_has_lived() {
        let now = Instant::now();
        let keeping = Keeping::new(now);
        assert_eq!(keeping.judge(After::Whole, MS, now), Use::Later);
        keeping.lives(After::Whole, 10 * MS);
        assert_eq!(keeping.judge(After::Whole, MS, now), Use::Later);
        keeping.lives(After::Whole, PROBATION);
        assert_eq!(keeping.judge(After::Whole, MS, now), Use::Now);
        // Streams are another matter.
        assert_eq!(keeping.judge(After::Stream, MS, now), Use::Later);
        assert_eq!(keeping.judge(After::Stream, PROBATION, now), Use::Now);
    }

    #[test]
    fn what_turns_out_wrong_is_believed_later_the_next_time() {
        let now = Instant::now();
        let keeping = Keeping::new(now);
        keeping.lives(After::Stream, PROBATION);
        // Several connections that end together are one mistake.
        for _ in 0..3 {
            keeping.closed(After::Stream, MS, now);
        }
        assert_eq!(keeping.judge(After::Stream, PROBATION, now), Use::Later);
        keeping.lives(After::Stream, PROBATION);
        assert_eq!(keeping.judge(After::Stream, PROBATION, now), Use::Later);
        keeping.lives(After::Stream, 2 * PROBATION);
        assert_eq!(keeping.judge(After::Stream, MS, now), Use::Now);
        keeping.broke(After::Stream, MS, now);
        assert_eq!(keeping.judge(After::Stream, 3 * PROBATION, now), Use::Later);
        assert_eq!(keeping.judge(After::Stream, 4 * PROBATION, now), Use::Now);
    }

    #[test]
    fn nothing_is_used_that_is_idle_for_half_as_long_as_others_lived() {
        let now = Instant::now();
        let keeping = Keeping::new(now);
        keeping.lives(After::Whole, PROBATION);
        keeping.closed(After::Whole, 1000 * MS, now);
        assert_eq!(keeping.judge(After::Whole, 400 * MS, now), Use::Now);
        assert_eq!(keeping.judge(After::Whole, 600 * MS, now), Use::Never);
        // The shortest life counts, until it is forgotten.
        keeping.closed(After::Whole, 4000 * MS, now);
        assert_eq!(keeping.judge(After::Whole, 600 * MS, now), Use::Never);
        let later = now + REMEMBERED + MS;
        assert_eq!(keeping.judge(After::Whole, 600 * MS, later), Use::Now);
    }
}
