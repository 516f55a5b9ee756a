//! Tells an engine that is busy from one that is dead: a busy one sends a byte now and then, to somebody.
//!
//! Each request measures how long it waited for the engine's next byte. An engine is *stalled* when requests wait, no
//! byte came to any of them, and that lasts longer than all of these, for each class of request that waits:
//! - the floor ([`Progress::new`]),
//! - 8 × the 99th percentile of the longest waits that requests of the class had and that ended with a byte,
//! - 2 × the longest of them.
//!
//! Requests are classed by whether they stream and by the size of their body, because a plain answer is silent until
//! it is complete and a long prompt is silent for long. A class of which fewer than [`MIN_SEEN`] requests were seen
//! says nothing, and then neither does the engine. Time in which the client does not read is not the engine's.
//!
//! A stalled engine gets no new requests (quarantine). Any byte from it ends that. When nobody waits any more, one
//! request is let through as a trial; ended without a byte, the next one is. Times are [`Instant`]s handed in by the
//! caller, so that tests need not wait. Costs of a byte that came: two atomic additions and a look at the clock.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

/// Requests of a class after which it is known how long they are silent.
pub const MIN_SEEN: u32 = 20;
/// Silence of so many times the 99th percentile…
const USUAL_FACTOR: u64 = 8;
/// …and of so many times the longest is not usual.
const LONGEST_FACTOR: u64 = 2;
/// Bucket `i` counts silences below 2^i ms; the last one begins at 2 h.
const BUCKETS: usize = 24;
/// Bodies of up to so many bytes are of one class.
const SIZES: [u64; 3] = [8 << 10, 64 << 10, 512 << 10];
const CLASSES: usize = 2 * (SIZES.len() + 1);

/// What kind of silence is usual for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class(usize);

impl Class {
    /// `body` is the size of the request's body in bytes.
    pub fn new(streams: bool, body: u64) -> Self {
        Self(SIZES.partition_point(|it| *it < body) + if streams { CLASSES / 2 } else { 0 })
    }
}

/// Requests of one class.
#[derive(Debug, Default)]
struct Waits {
    /// Requests that wait for a byte now.
    waiting: AtomicU32,
    /// Since when some do, in milliseconds.
    since: AtomicU64,
    /// Longest silences of requests that ended, see [`BUCKETS`].
    silences: [AtomicU32; BUCKETS],
}

impl Waits {
    /// The longest silence in milliseconds that is no reason to worry; `None` if too little is known.
    fn allowed(&self) -> Option<u64> {
        let counts: Vec<u64> = self.silences.iter().map(|it| u64::from(it.load(Relaxed))).collect();
        let seen: u64 = counts.iter().sum();
        if seen < u64::from(MIN_SEEN) {
            return None;
        }
        let rank = seen - seen / 100;
        let mut below = 0;
        let usual = counts.iter().position(|n| {
            below += n;
            below >= rank
        })?;
        let longest = counts.iter().rposition(|n| *n > 0)?;
        Some((USUAL_FACTOR << usual).max(LONGEST_FACTOR << longest))
    }
}

/// See the module. One for each engine.
#[derive(Debug)]
pub struct Progress {
    /// Milliseconds.
    floor: u64,
    /// Times are milliseconds since then.
    born: Instant,
    /// When the last byte came.
    last: AtomicU64,
    classes: [Waits; CLASSES],
    /// Whether there is a quarantine, so that nobody needs the lock while there is none.
    flag: AtomicBool,
    /// How often it stalled.
    stalls: AtomicU64,
    /// Since when the engine is silent, in quarantine.
    quarantine: Mutex<Option<u64>>,
}

/// The engine is silent while requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// Without a byte for so long.
    pub silent: Duration,
}

impl Progress {
    /// Silence of up to `floor` is always usual.
    pub fn new(floor: Duration, now: Instant) -> Self {
        Self {
            floor: millis(floor),
            born: now,
            last: AtomicU64::new(0),
            classes: Default::default(),
            flag: AtomicBool::new(false),
            stalls: AtomicU64::new(0),
            quarantine: Mutex::new(None),
        }
    }

    /// How often it stalled so far.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }

    /// Lets a request through, which waits for its first byte from now on.
    ///
    /// # Errors
    /// The engine is stalled. Somebody waits for it still, or a trial runs.
    pub fn enter(self: &Arc<Self>, class: Class, now: Instant) -> Result<Watch, Stalled> {
        let watch = |progress: &Arc<Self>| Watch {
            progress: Arc::clone(progress),
            class,
            waiting: Cell::new(false),
            since: Cell::new(0),
            longest: Cell::new(None),
        };
        if !self.flag.load(Acquire) && self.stalled(now).is_none() {
            let watch = watch(self);
            watch.waits(now);
            return Ok(watch);
        }
        let mut quarantine = self.lock();
        self.look(&mut quarantine, now);
        match *quarantine {
            Some(since) if self.anybody_waits() => Err(self.silence(since, now)),
            // The next one finds that somebody waits: this one.
            _ => {
                let watch = watch(self);
                watch.waits(now);
                Ok(watch)
            }
        }
    }

    /// For how long the engine has been silent, if that is too long. Does not say whether it is in quarantine.
    pub fn stalled(&self, now: Instant) -> Option<Duration> {
        let (now, last) = (self.at(now), self.last.load(Relaxed));
        if now.saturating_sub(last) <= self.floor {
            return None;
        }
        let mut silent = None;
        for class in &self.classes {
            if class.waiting.load(Relaxed) == 0 {
                continue;
            }
            let silence = now.saturating_sub(last.max(class.since.load(Relaxed)));
            if silence <= self.floor || silence <= class.allowed()? {
                return None;
            }
            silent = silent.max(Some(silence));
        }
        silent.map(Duration::from_millis)
    }

    /// Since when it is in quarantine, or should be: the time of the last byte, or of the first request that waits.
    pub fn quarantined(&self, now: Instant) -> Option<Instant> {
        if !self.flag.load(Acquire) && self.stalled(now).is_none() {
            return None;
        }
        let mut quarantine = self.lock();
        self.look(&mut quarantine, now);
        quarantine.map(|since| self.born + Duration::from_millis(since))
    }

    fn look(&self, quarantine: &mut Option<u64>, now: Instant) {
        if quarantine.is_none()
            && let Some(silent) = self.stalled(now)
        {
            tracing::warn!(
                silent_sec = silent.as_secs(),
                "an engine sends nothing while requests wait for it"
            );
            self.stalls.fetch_add(1, Relaxed);
            *quarantine = Some(self.at(now).saturating_sub(millis(silent)));
            self.flag.store(true, Release);
        }
    }

    fn anybody_waits(&self) -> bool {
        self.classes.iter().any(|it| it.waiting.load(Relaxed) > 0)
    }

    fn silence(&self, since: u64, now: Instant) -> Stalled {
        Stalled { silent: Duration::from_millis(self.at(now).saturating_sub(since)) }
    }

    fn heard(&self, now: u64) {
        // Within one millisecond the line stays where it is, in all threads' caches.
        if self.last.load(Relaxed) < now {
            self.last.store(now, Relaxed);
        }
        if self.flag.load(Relaxed) {
            let mut quarantine = self.lock();
            if quarantine.take().is_some() {
                tracing::info!("an engine that was silent sends again");
            }
            self.flag.store(false, Release);
        }
    }

    fn at(&self, now: Instant) -> u64 {
        millis(now.saturating_duration_since(self.born))
    }

    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.quarantine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that the engine works on. Ends with its value.
#[derive(Debug)]
#[must_use]
pub struct Watch {
    progress: Arc<Progress>,
    class: Class,
    waiting: Cell<bool>,
    /// Since when it waits.
    since: Cell<u64>,
    /// Its longest wait that ended with a byte.
    longest: Cell<Option<u64>>,
}

impl Watch {
    /// Bytes came.
    pub fn heard(&self, now: Instant) {
        let now = self.progress.at(now);
        self.progress.heard(now);
        if self.waiting.replace(false) {
            self.class().waiting.fetch_sub(1, Relaxed);
            let silence = now.saturating_sub(self.since.get());
            self.longest.set(self.longest.get().max(Some(silence)));
        }
    }

    /// Its client would take more bytes from now on.
    pub fn waits(&self, now: Instant) {
        if self.waiting.replace(true) {
            return;
        }
        let (now, class) = (self.progress.at(now), self.class());
        self.since.set(now);
        // Before the count, so that nobody sees a request that waits since a time that is not its own.
        if class.waiting.load(Relaxed) == 0 {
            class.since.store(now, Relaxed);
        }
        class.waiting.fetch_add(1, Release);
    }

    /// Whether it waits already: [`Watch::waits`] would do nothing, and no clock need be read for it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.get()
    }

    fn class(&self) -> &Waits {
        &self.progress.classes[self.class.0]
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let class = self.class();
        if self.waiting.get() {
            class.waiting.fetch_sub(1, Relaxed);
        }
        if let Some(longest) = self.longest.get() {
            let bucket = (u64::BITS - longest.leading_zeros()) as usize;
            class.silences[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
        }
    }
}

fn millis(it: Duration) -> u64 {
    u64::try_from(it.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
