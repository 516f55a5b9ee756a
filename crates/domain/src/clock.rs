//! Wall-clock time: the only reader of the system clock, and the timestamp type of every table and record.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z. Stored as BIGINT, shown as RFC 3339 by [`Timestamp::rfc3339`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// `2026-11-21T02:30:00.123Z`. Times outside the calendar that `jiff` knows (±9999 years) become the epoch.
    pub fn rfc3339(self) -> String {
        let at = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        format!("{at:.3}")
    }

    /// Reads RFC 3339 with any offset.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_millisecond()))
    }

    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Time from `earlier` to `self`; zero if the clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

/// Where the time comes from; tests hand in their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// The system's time of now, then as the monotonic clock goes on: for deadlines, which a clock that is set must
    /// not move.
    pub fn steady() -> Self {
        let (wall, began) = (Self::default().now(), std::time::Instant::now());
        Self::new(move || wall.plus(began.elapsed()))
    }

    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(|| Timestamp(jiff::Timestamp::now().as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_what_it_writes() {
        let at = Timestamp(1_795_219_804_123);
        assert_eq!(at.rfc3339(), "2026-11-21T00:10:04.123Z");
        assert_eq!(Timestamp::parse_rfc3339(&at.rfc3339()), Some(at));
        assert_eq!(Timestamp::parse_rfc3339("2026-11-21T01:10:04.123+01:00"), Some(at));
        assert_eq!(Timestamp::parse_rfc3339("yesterday"), None);
    }
}
