//! Limits the memory that request bodies take together, on all threads. Without a limit, every connection could have a
//! large body half sent at the same time.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use gantry_domain::{ApiError, ErrorCode};

use crate::{limits::Holder, who::Who};

/// Bytes of each body that are not counted: they lie in the buffer that a connection has in any case.
pub(crate) const FREE: usize = 64 << 10;
/// Seconds after which a retry is suggested: bodies come and go within moments.
const RETRY_AFTER_SEC: u64 = 1;

/// The memory that request bodies take now, in bytes.
#[derive(Debug, Default)]
pub struct Bodies {
    all: AtomicUsize,
    /// The bytes of each holder. It is locked for moments, and only for bodies beyond [`FREE`].
    by: Mutex<HashMap<Holder, usize>>,
}

impl Bodies {
    /// Bytes that are taken now.
    pub fn used(&self) -> usize {
        self.all.load(Relaxed)
    }

    /// Makes the [`Room`] for one body of `who`. All bodies together may take `max` bytes.
    pub(crate) fn room(&self, max: usize, who: Who) -> Room<'_> {
        // No single caller may take all the room.
        let share = |holder: Option<Holder>, part: usize| holder.map(|it| (it, part));
        let holders = [
            share(who.key.map(Holder::Key), max / 2),
            share(who.user.map(Holder::User), max / 2),
            share(who.org.map(Holder::Org), max / 4 * 3),
        ];
        Room { bodies: self, max, holders, taken: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory that one body takes; it is given back on drop.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    bodies: &'a Bodies,
    max: usize,
    /// The holders that the body counts for, and the most bytes that each may take.
    holders: [Option<(Holder, usize)>; 3],
    taken: usize,
}

impl Room<'_> {
    /// Takes memory for a body that has grown to `length` bytes.
    ///
    /// # Errors
    /// 503 `request_memory_full`.
    pub(crate) fn grow(&mut self, length: usize) -> Result<(), ApiError> {
        let more = length.saturating_sub(FREE).saturating_sub(self.taken);
        if more == 0 {
            return Ok(());
        }
        if !take(&self.bodies.all, more, self.max) {
            return Err(full("the gateway's memory for request bodies is full".to_owned()));
        }
        let mut by = self.bodies.lock();
        for (holder, part) in self.holders.iter().flatten() {
            let used = by.get(holder).copied().unwrap_or(0);
            // One body alone is let through as long as there is memory at all.
            if used + more > (*part).max(length) {
                self.bodies.all.fetch_sub(more, Relaxed);
                let word = holder.word();
                return Err(full(format!(
                    "the bodies that this {word} sends at the same time are too many or too large"
                )));
            }
        }
        for (holder, _) in self.holders.iter().flatten() {
            *by.entry(*holder).or_default() += more;
        }
        self.taken += more;
        Ok(())
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.taken == 0 {
            return;
        }
        self.bodies.all.fetch_sub(self.taken, Relaxed);
        let mut by = self.bodies.lock();
        for (holder, _) in self.holders.iter().flatten() {
            if let Some(used) = by.get_mut(holder) {
                *used = used.saturating_sub(self.taken);
                if *used == 0 {
                    by.remove(holder);
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
