//! How many streams are open: of events, and of logs that are followed. Each holds a connection and is looked at several
//! times a second for as long as its session lasts, so a page that forgets to close them, or somebody who means harm,
//! must come to an end of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gantry_domain::{ApiError, ErrorCode};

use crate::error::{Outcome, Problem};

/// Streams of one session: pages that are open beside each other, and their logs.
const OF_SESSION: usize = 16;
/// When to come again; nobody knows when one of them is closed.
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
    /// By the hash of the session's id; none is 0.
    by_session: HashMap<[u8; 32], usize>,
}

/// One place; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    session: [u8; 32],
}

impl Seats {
    /// For `max` streams of all sessions together.
    pub fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// # Errors
    /// 429 `too_many_streams`: the session has its share. 503 `streams_exhausted`: all together have.
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
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
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
