//! Memory that request bodies take together, on all threads. Without a bound, as many large bodies as there are
//! connections could be half sent at the same time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use gantry_domain::{ApiError, ErrorCode};

use crate::limits::KeyState;

/// So much of each body is not counted: it lies in the buffer that a connection has in any case.
pub(crate) const FREE: usize = 64 << 10;
/// One key gets at most this part of all, so that others find room beside it.
const SHARE: usize = 2;
/// Bodies come and go within moments.
const RETRY_AFTER_SEC: u64 = 1;

/// How much is taken, in bytes.
#[derive(Debug, Default)]
pub struct Bodies(AtomicUsize);

impl Bodies {
    /// Bytes that are taken now.
    pub fn used(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// For one body, of `key` if one was used. All bodies together may take `max` bytes.
    pub(crate) fn room(&self, max: usize, key: Option<&Arc<KeyState>>) -> Room<'_> {
        Room { bodies: self, max, key: key.map(Arc::clone), taken: 0 }
    }
}

/// What one body takes; given back on drop.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    bodies: &'a Bodies,
    max: usize,
    key: Option<Arc<KeyState>>,
    taken: usize,
}

impl Room<'_> {
    /// The body has `length` bytes by now.
    ///
    /// # Errors
    /// 503 `request_memory_full`.
    pub(crate) fn grow(&mut self, length: usize) -> Result<(), ApiError> {
        let more = length.saturating_sub(FREE).saturating_sub(self.taken);
        if more == 0 {
            return Ok(());
        }
        if !take(&self.bodies.0, more, self.max) {
            return Err(full("the gateway's memory for request bodies is full"));
        }
        // One body alone is let through as long as there is memory at all.
        let own = self.key.as_ref().is_none_or(|it| take(&it.bodies, more, (self.max / SHARE).max(length)));
        if !own {
            self.bodies.0.fetch_sub(more, Relaxed);
            return Err(full("the bodies that this key sends at the same time are too many or too large"));
        }
        self.taken += more;
        Ok(())
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.bodies.0.fetch_sub(self.taken, Relaxed);
            if let Some(key) = &self.key {
                key.bodies.fetch_sub(self.taken, Relaxed);
            }
        }
    }
}

fn take(used: &AtomicUsize, more: usize, max: usize) -> bool {
    let next = |now: usize| now.checked_add(more).filter(|it| *it <= max);
    used.fetch_update(Relaxed, Relaxed, next).is_ok()
}

fn full(message: &str) -> ApiError {
    ApiError::new(ErrorCode::RequestMemoryFull, message).retry_after(RETRY_AFTER_SEC)
}
