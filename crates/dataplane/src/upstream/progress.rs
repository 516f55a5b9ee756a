//! Tells a busy engine from a dead one: a busy one sends a byte now and then, to some request.
//!
//! Each request measures how long it waited for the engine's next byte. An engine is *stalled* when requests wait, no
//! byte came to any of them, and that lasts longer than all of these, for each class of request that waits:
//! - the floor ([`Progress::new`]),
//! - 8 × the 99th percentile of the longest waits that requests of the class had and that ended with a byte,
//! - 2 × the longest of them.
//!
//! Requests are classed by whether they stream and by the size of their body, because a plain answer is silent until it
//! is complete and a long prompt is silent for long. A class of which fewer than [`MIN_SEEN`] requests were seen has no
//! usual silence yet; while one of its requests waits, the engine is not considered stalled. Time in which the client
//! does not read does not count.
//!
//! Besides, a plain answer may be silent for the time that its longest allowed answer takes: the number of its tokens,
//! times twice the 99th percentile of the time for each token of plain answers. So one long answer is no stall, and
//! streams may wait behind it. A request that ends without a byte is not counted: otherwise an engine that hangs would
//! make hanging usual.
//!
//! A stalled engine gets no new requests (quarantine), except for trials (see [`quarantine`]) and for one when no
//! request waits any more. Any byte from it ends that. Times are [`Instant`]s handed in by the caller, so that tests
//! need not wait. Costs of a byte that came: two atomic additions and a look at the clock.

mod quarantine;

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use crate::caller_id::CallerId;
use quarantine::Quarantine;

/// Requests of a class that must have been seen before it is known how long they are silent.
pub const MIN_SEEN: u32 = 20;
/// A stream is stalled after a silence of this many times the 99th percentile of its pauses…
const USUAL_FACTOR: u64 = 8;
/// …that is also this many times the longest pause seen.
const LONGEST_FACTOR: u64 = 2;
/// An answer may take this many times the 99th percentile of the time for its tokens.
const PACE_FACTOR: u64 = 2;
/// Bucket `i` counts silences below 2^i ms, or times of a token below 2^i µs; the last one begins at 2 h, or 8 s.
const BUCKETS: usize = 24;
/// Largest bodies of each class, in bytes; the last class has no limit.
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

/// Counts of the values seen, see [`BUCKETS`].
#[derive(Debug, Default)]
struct Distribution([AtomicU32; BUCKETS]);

impl Distribution {
    fn note(&self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    /// Returns upper bounds of the 99th percentile and of the largest value; `None` if fewer than [`MIN_SEEN`] were
    /// seen.
    fn usual_and_largest(&self) -> Option<(u64, u64)> {
        let counts = self.0.each_ref().map(|it| u64::from(it.load(Relaxed)));
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
        let largest = counts.iter().rposition(|n| *n > 0)?;
        Some((1 << usual, 1 << largest))
    }
}

/// Requests of one class.
#[derive(Debug, Default)]
struct Waits {
    /// Requests that wait for a byte now.
    waiting: AtomicU32,
    /// Since when requests wait, in milliseconds.
    since: AtomicU64,
    /// Until when one of them may be silent, whatever is usual.
    until: AtomicU64,
    /// Longest silences of requests that ended.
    silences: Distribution,
}

impl Waits {
    /// Returns the longest silence in milliseconds that is not a stall; `None` if too little is known.
    fn allowed(&self) -> Option<u64> {
        let (usual, longest) = self.silences.usual_and_largest()?;
        Some((USUAL_FACTOR * usual).max(LONGEST_FACTOR * longest))
    }
}

/// A request that is to be sent to an engine.
#[derive(Debug, Clone, Copy)]
pub struct Entrant {
    pub caller: CallerId,
    pub class: Class,
    /// Tokens of the longest answer that it allows, if nothing of the answer comes before the end; 0 otherwise.
    pub tokens: u64,
    /// The request is given up after this time.
    pub timeout: Duration,
}

/// Watches the bytes of one engine, to find out if it has stalled.
#[derive(Debug)]
pub struct Progress {
    /// Milliseconds.
    floor: u64,
    /// Times are milliseconds since then.
    born: Instant,
    /// When the last byte came.
    last: AtomicU64,
    classes: [Waits; CLASSES],
    /// Microseconds that a token of plain answers took.
    paces: Distribution,
    /// Name of the model, for the log.
    name: OnceLock<String>,
    /// Whether there is a quarantine, so that nobody needs the lock while there is none.
    flag: AtomicBool,
    /// How often it stalled.
    stalls: AtomicU64,
    quarantine: Mutex<Option<Quarantine>>,
}

/// The engine is silent while requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// Time without a byte.
    pub silent: Duration,
    /// Time until a caller may try.
    pub retry_in: Duration,
}

impl Progress {
    /// Silence of up to `floor` is always usual.
    pub fn new(floor: Duration, now: Instant) -> Self {
        Self {
            floor: millis(floor),
            born: now,
            last: AtomicU64::new(0),
            classes: Default::default(),
            paces: Distribution::default(),
            name: OnceLock::new(),
            flag: AtomicBool::new(false),
            stalls: AtomicU64::new(0),
            quarantine: Mutex::new(None),
        }
    }

    /// How often it stalled so far.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }

    /// Sets the name of the model.
    pub(crate) fn named(&self, name: &str) {
        self.name.get_or_init(|| name.to_owned());
    }

    /// Lets a request through, which waits for its first byte from now on.
    ///
    /// # Errors
    /// The engine is stalled, and it is not this caller's turn to try.
    pub fn enter(self: &Arc<Self>, entrant: &Entrant, now: Instant) -> Result<Watch, Stalled> {
        if self.flag.load(Acquire) || self.stalled(now).is_some() {
            let mut quarantine = self.lock();
            self.look(&mut quarantine, now);
            let at = self.at(now);
            if let Some(quarantine) = &mut *quarantine {
                // If no request waits, this one may go; later requests then see that this one waits.
                if !self.anybody_waits() {
                    quarantine.tried(entrant.caller, at);
                } else if !quarantine.lets(entrant.caller, at) {
                    return Err(Stalled {
                        silent: Duration::from_millis(at.saturating_sub(quarantine.since)),
                        retry_in: Duration::from_millis(quarantine.next(at)),
                    });
                }
            }
            // This happens under the lock, for the same reason.
            return Ok(self.watch(entrant, now));
        }
        Ok(self.watch(entrant, now))
    }

    fn watch(self: &Arc<Self>, entrant: &Entrant, now: Instant) -> Watch {
        let pace = (entrant.tokens > 0).then(|| self.paces.usual_and_largest()).flatten();
        let allowance =
            pace.map_or(0, |(usual, _)| (PACE_FACTOR * usual).saturating_mul(entrant.tokens) / 1000);
        let watch = Watch {
            progress: Arc::clone(self),
            class: entrant.class,
            allowance: Cell::new(allowance.min(millis(entrant.timeout))),
            waiting: Cell::new(false),
            since: Cell::new(0),
            longest: Cell::new(None),
        };
        watch.waits(now);
        watch
    }

    /// Returns how long the engine has been silent, if that is too long. Does not say whether it is in quarantine.
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
            if now <= class.until.load(Relaxed) || silence <= self.floor || silence <= class.allowed()? {
                return None;
            }
            silent = silent.max(Some(silence));
        }
        silent.map(Duration::from_millis)
    }

    /// Returns since when it is in quarantine, or should be: the time of the last byte, or of the first request that
    /// waits.
    pub fn quarantined(&self, now: Instant) -> Option<Instant> {
        if !self.flag.load(Acquire) && self.stalled(now).is_none() {
            return None;
        }
        let mut quarantine = self.lock();
        self.look(&mut quarantine, now);
        quarantine.as_ref().map(|it| self.born + Duration::from_millis(it.since))
    }

    fn look(&self, quarantine: &mut Option<Quarantine>, now: Instant) {
        if quarantine.is_none()
            && let Some(silent) = self.stalled(now)
        {
            tracing::warn!(
                model = self.name(),
                silent_sec = silent.as_secs(),
                "an engine sends nothing while requests wait for it"
            );
            self.stalls.fetch_add(1, Relaxed);
            *quarantine = Some(Quarantine::new(self.at(now).saturating_sub(millis(silent))));
            self.flag.store(true, Release);
        }
    }

    fn anybody_waits(&self) -> bool {
        self.classes.iter().any(|it| it.waiting.load(Relaxed) > 0)
    }

    fn name(&self) -> &str {
        self.name.get().map_or("", String::as_str)
    }

    fn heard(&self, now: u64) {
        // Without a store, within one millisecond, the cache line stays in all threads' caches.
        if self.last.load(Relaxed) < now {
            self.last.store(now, Relaxed);
        }
        if self.flag.load(Relaxed) {
            let mut quarantine = self.lock();
            if quarantine.take().is_some() {
                tracing::info!(model = self.name(), "an engine that was silent sends again");
            }
            self.flag.store(false, Release);
        }
    }

    fn at(&self, now: Instant) -> u64 {
        millis(now.saturating_duration_since(self.born))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Quarantine>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.quarantine.lock()
    }
}

/// A request that the engine works on. Ends with its value.
#[derive(Debug)]
#[must_use]
pub struct Watch {
    progress: Arc<Progress>,
    class: Class,
    /// Milliseconds that it may wait for its first byte, whatever is usual.
    allowance: Cell<u64>,
    waiting: Cell<bool>,
    /// Since when it waits.
    since: Cell<u64>,
    /// Its longest wait that ended with a byte.
    longest: Cell<Option<u64>>,
}

impl Watch {
    /// Notes that bytes came.
    pub fn heard(&self, now: Instant) {
        let now = self.progress.at(now);
        self.progress.heard(now);
        if self.waiting.replace(false) {
            self.class().waiting.fetch_sub(1, Relaxed);
            let silence = now.saturating_sub(self.since.get());
            self.longest.set(self.longest.get().max(Some(silence)));
        }
    }

    /// Notes that its client would take more bytes from now on.
    pub fn waits(&self, now: Instant) {
        if self.waiting.replace(true) {
            return;
        }
        let (now, class) = (self.progress.at(now), self.class());
        self.since.set(now);
        let until = now.saturating_add(self.allowance.take());
        // This happens before the count, so that no thread sees a request that waits together with an older time.
        if class.waiting.load(Relaxed) == 0 {
            class.since.store(now, Relaxed);
            class.until.store(until, Relaxed);
        } else if class.until.load(Relaxed) < until {
            class.until.fetch_max(until, Relaxed);
        }
        class.waiting.fetch_add(1, Release);
    }

    /// Notes that its answer came all at once, and how many tokens it has.
    pub fn counted(&self, tokens: u64) {
        if let Some(longest) = self.longest.get().filter(|_| tokens > 0) {
            self.progress.paces.note(longest.saturating_mul(1000) / tokens);
        }
    }

    /// Returns whether it waits already: [`Watch::waits`] would do nothing, and the clock need not be read for it.
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
            class.silences.note(longest);
        }
    }
}

fn millis(it: Duration) -> u64 {
    u64::try_from(it.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
