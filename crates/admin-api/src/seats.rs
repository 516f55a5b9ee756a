//! Bounds how many streams are open: streams of events, and of logs that are followed. Each stream holds a connection
//! and is checked several times a second for as long as its session lasts, so a page that forgets to close its streams,
//! or an attacker, must reach a limit.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gantry_domain::{ApiError, ErrorCode};
use parking_lot::{Mutex, MutexGuard};

use crate::error::{Outcome, Problem};

/// Most streams of one session: pages that are open side by side, and their logs.
const OF_SESSION: usize = 16;
/// When a refused caller may come again; it is not known when a stream is closed.
const BUSY: Duration = Duration::from_secs(5);

/// All places for streams; cheap to clone.
#[derive(Debug, Clone)]
pub struct Seats {
    max: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Number of streams by the hash of the session's id; no number is 0.
    by_session: HashMap<[u8; 32], usize>,
}

/// A place for one stream. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    session: [u8; 32],
}

impl Seats {
    /// Makes places for `max` streams of all sessions together.
    pub fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// # Errors
    /// 429 `too_many_streams` if the session has all of its streams. 503 `streams_exhausted` if all sessions together
    /// have all streams.
    pub(crate) fn take(&self, session: [u8; 32]) -> Outcome<Seat> {
        let mut taken = self.taken();
        if taken.by_session.get(&session).is_some_and(|it| *it >= OF_SESSION) {
            return Err(busy(
                ErrorCode::TooManyStreams,
                format!("this session has {OF_SESSION} streams open, which is as many as it may"),
            ));
        }
        if taken.all >= self.max {
            return Err(busy(
                ErrorCode::StreamsExhausted,
                format!(
                    "{} streams are open, which is as many as there may be (EVENT_STREAMS_MAX)",
                    self.max
                ),
            ));
        }
        taken.all += 1;
        *taken.by_session.entry(session).or_default() += 1;
        Ok(Seat { seats: self.clone(), session })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }
}

fn busy(code: ErrorCode, message: String) -> Problem {
    Problem(ApiError::new(code, message).retry_in(BUSY))
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by_session.get_mut(&self.session) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by_session.remove(&self.session);
            }
        }
    }
}
