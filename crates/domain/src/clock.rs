//! Wall-clock time: the only reader of the system clock, and the timestamp type of every table and record.

use std::{fmt, sync::Arc, time::Duration};

use jiff::{SignedDuration, civil::DateTime, fmt::temporal::Pieces};
use serde::{Deserialize, Serialize};

/// The zero point of [`Timestamp`].
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Milliseconds since 1970-01-01T00:00:00Z. Stored as BIGINT, shown as RFC 3339 by [`Timestamp::rfc3339`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// 9999-12-31T23:59:59.999Z: the last moment that RFC 3339 can write, and what people write for "never".
    pub const LAST: Self = Self(253_402_300_799_999);

    /// Formats as in `2026-11-21T02:30:00.123Z`. Times outside the years ±9999 become the epoch.
    pub fn rfc3339(self) -> String {
        if let Ok(at) = jiff::Timestamp::from_millisecond(self.0) {
            return format!("{at:.3}");
        }
        let at = EPOCH.checked_add(SignedDuration::from_millis(self.0)).unwrap_or(EPOCH);
        format!("{at:.3}Z")
    }

    /// Reads RFC 3339 with any offset. A time that its offset moves beyond [`Timestamp::LAST`] becomes
    /// [`Timestamp::LAST`].
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return Some(Self(at.as_millisecond()));
        }
        // `jiff` leaves a day at both ends of its calendar for offsets; the last one is in use.
        let pieces = Pieces::parse(text).ok()?;
        if pieces.time_zone_annotation().is_some() {
            return None;
        }
        let local = pieces.date().to_datetime(pieces.time()?);
        let offset = SignedDuration::from_secs(pieces.to_numeric_offset()?.seconds().into());
        let since = local.duration_since(EPOCH).checked_sub(offset)?;
        let ms = i64::try_from(since.as_millis()).ok()?;
        (ms > 0).then_some(Self(ms).min(Self::LAST))
    }

    /// Returns the time `span` later, or the latest one that can be written.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the time `span` earlier, or the earliest one that can be written.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the time from `earlier` to `self`; zero if the clock was set back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

/// The source of the current time; tests pass in their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// Returns a clock that starts at the system's current time and then follows the monotonic clock. Deadlines use it,
    /// because setting the system clock must not move them.
    pub fn steady() -> Self {
        let (wall, began) = (Self::default().now(), std::time::Instant::now());
        Self::new(move || wall.plus(began.elapsed()))
    }

    /// Makes a clock that asks `now` for the time.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
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

    #[test]
    fn the_last_day_of_the_calendar_is_a_day_like_others() {
        for (text, shown) in [
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T01:00:00+02:00", "9999-12-30T23:00:00.000Z"),
            ("9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59.999Z"),
        ] {
            let at = Timestamp::parse_rfc3339(text).unwrap();
            assert_eq!(at.rfc3339(), shown, "{text}");
            assert_eq!(Timestamp::parse_rfc3339(shown), Some(at));
        }
        for bad in ["9999-12-31", "9999-12-31T23:59:59", "9999-12-32T00:00:00Z", "10000-01-01T00:00:00Z"] {
            assert_eq!(Timestamp::parse_rfc3339(bad), None, "{bad}");
        }
    }
}
