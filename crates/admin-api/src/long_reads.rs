//! Limits reads of the database that may take seconds: one at a time for each caller, and fewer than there are
//! connections for reading, so that other reads find one.

use std::sync::Arc;

use gantry_domain::{ApiError, ErrorCode, UserId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    error::Outcome,
    turns::{Turn, Turns},
};

/// Most long reads at the same time; SQLite has four connections for reading.
const AT_ONCE: usize = 3;
/// Most long reads of one caller, those that wait included: several times what a page asks for at once.
const OF_CALLER: usize = 16;
/// Seconds after which a refused caller may try again; it is not known how long the other reads take.
const RETRY_AFTER_SEC: u64 = 2;

/// Places for long reads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LongReads {
    callers: Turns,
    places: Arc<Semaphore>,
}

/// A place for one long read. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct LongRead {
    _place: OwnedSemaphorePermit,
    _turn: Turn,
}

impl Default for LongReads {
    fn default() -> Self {
        Self { callers: Turns::new(OF_CALLER), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl LongReads {
    /// Waits for a place.
    ///
    /// # Errors
    /// 429 `too_many_attempts` if too many of the caller wait already.
    pub(crate) async fn begin(&self, caller: UserId) -> Outcome<LongRead> {
        let busy = || {
            let message = "too many of your reads of usage wait already";
            ApiError::new(ErrorCode::TooManyAttempts, message).retry_after(RETRY_AFTER_SEC)
        };
        let turn = self.callers.turn(caller).await.ok_or_else(busy)?;
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ApiError::internal())?;
        Ok(LongRead { _place: place, _turn: turn })
    }
}
