//! The time that limits are counted in.

use std::{sync::LazyLock, time::Instant};

/// Returns the nanoseconds since the first call; all limits use this time.
pub fn nanos(now: Instant) -> u64 {
    static BORN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(now.saturating_duration_since(*BORN).as_nanos()).unwrap_or(u64::MAX)
}
