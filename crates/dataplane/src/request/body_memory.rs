//! Limits the memory that request bodies take together, on all threads. Without a limit, every connection could have a
//! large body half sent at the same time.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use gantry_domain::{ApiError, ErrorCode};
use parking_lot::{Mutex, MutexGuard};

use crate::{caller_id::CallerId, limits::Subject};

/// Bytes of each body that are not counted: they lie in the buffer that a connection has in any case.
pub(crate) const FREE: usize = 64 << 10;
/// Seconds after which a retry is suggested: bodies come and go within moments.
const RETRY_AFTER_SEC: u64 = 1;

/// The memory that request bodies take now, in bytes.
#[derive(Debug, Default)]
pub struct BodyMemory {
    all: AtomicUsize,
    /// The bytes of each subject. It is locked for moments, and only for bodies beyond [`FREE`].
    by: Mutex<HashMap<Subject, usize>>,
}

impl BodyMemory {
    /// Bytes that are taken now.
    pub fn used(&self) -> usize {
        self.all.load(Relaxed)
    }

    /// Makes the [`BodyReservation`] for one body of `caller`. All bodies together may take `max` bytes.
    pub(crate) fn reserve(&self, max: usize, caller: CallerId) -> BodyReservation<'_> {
        // No single caller may take all the room.
        let share = |subject: Option<Subject>, part: usize| subject.map(|it| (it, part));
        let subjects = [
            share(caller.key.map(Subject::Key), max / 2),
            share(caller.user.map(Subject::User), max / 2),
            share(caller.org.map(Subject::Org), max / 4 * 3),
        ];
        BodyReservation { memory: self, max, subjects, taken: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, usize>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.by.lock()
    }
}

/// The memory that one body takes; it is given back on drop.
#[derive(Debug)]
pub(crate) struct BodyReservation<'a> {
    memory: &'a BodyMemory,
    max: usize,
    /// The subjects that the body counts for, and the most bytes that each may take.
    subjects: [Option<(Subject, usize)>; 3],
    taken: usize,
}

impl BodyReservation<'_> {
    /// Takes memory for a body that has grown to `length` bytes.
    ///
    /// # Errors
    /// 503 `request_memory_full`.
    pub(crate) fn grow(&mut self, length: usize) -> Result<(), ApiError> {
        let more = length.saturating_sub(FREE).saturating_sub(self.taken);
        if more == 0 {
            return Ok(());
        }
        if !take(&self.memory.all, more, self.max) {
            return Err(full("the gateway's memory for request bodies is full".to_owned()));
        }
        let mut by = self.memory.lock();
        for (subject, part) in self.subjects.iter().flatten() {
            let used = by.get(subject).copied().unwrap_or(0);
            // One body alone is let through as long as there is memory at all.
            if used + more > (*part).max(length) {
                self.memory.all.fetch_sub(more, Relaxed);
                let word = subject.word();
                return Err(full(format!(
                    "the bodies that this {word} sends at the same time are too many or too large"
                )));
            }
        }
        for (subject, _) in self.subjects.iter().flatten() {
            *by.entry(*subject).or_default() += more;
        }
        self.taken += more;
        Ok(())
    }
}

impl Drop for BodyReservation<'_> {
    fn drop(&mut self) {
        if self.taken == 0 {
            return;
        }
        self.memory.all.fetch_sub(self.taken, Relaxed);
        let mut by = self.memory.lock();
        for (subject, _) in self.subjects.iter().flatten() {
            if let Some(used) = by.get_mut(subject) {
                *used = used.saturating_sub(self.taken);
                if *used == 0 {
                    by.remove(subject);
                }
            }
        }
    }
}

fn take(used: &AtomicUsize, more: usize, max: usize) -> bool {
    let next = |now: usize| now.checked_add(more).filter(|it| *it <= max);
    used.fetch_update(Relaxed, Relaxed, next).is_ok()
}

fn full(message: String) -> ApiError {
    ApiError::new(ErrorCode::RequestMemoryFull, message).retry_after(RETRY_AFTER_SEC)
}
