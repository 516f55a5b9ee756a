//! The time that limits are counted in.

use std::{sync::LazyLock, time::Instant};

use gantry_domain::Timestamp;

/// A point in time: by the clock that rates are counted in, and by the calendar that budgets follow.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// See [`nanos`].
    pub(super) nanos: u64,
    pub(super) at: Timestamp,
}

impl Moment {
    /// `now` and `at` are the same moment on the steady clock and on the wall clock.
    pub fn new(now: Instant, at: Timestamp) -> Self {
        Self { nanos: nanos(now), at }
    }
}

/// Returns the nanoseconds since the first call; all limits use this time.
pub fn nanos(now: Instant) -> u64 {
    static BORN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(now.saturating_duration_since(*BORN).as_nanos()).unwrap_or(u64::MAX)
}
