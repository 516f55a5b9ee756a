//! The periods of budgets: calendar days and months in UTC.

use jiff::{
    ToSpan,
    civil::{Date, Time},
    tz::Offset,
};

use crate::{Timestamp, words};

words! {
    /// The period that a budget covers.
    pub enum Period {
        /// A calendar day in UTC.
        Day = "day",
        /// A calendar month in UTC.
        Month = "month",
    }
}

impl Period {
    /// Returns a number that tells the period of `at` from neighbouring ones. Later periods have larger numbers, modulo
    /// 2^16.
    pub fn tag(self, at: Timestamp) -> u16 {
        let tag = match self {
            Self::Day => at.0.div_euclid(24 * 3600 * 1000),
            Self::Month => {
                let date = date(at);
                i64::from(date.year()) * 12 + i64::from(date.month())
            }
        };
        // The number is truncated on purpose: it is compared only with neighbouring periods.
        (tag & 0xffff) as u16
    }

    /// Returns the first millisecond of the period of `at`.
    pub fn start(self, at: Timestamp) -> Timestamp {
        midnight(self.first_day(at))
    }

    /// Returns the first millisecond after the period of `at`.
    pub fn end(self, at: Timestamp) -> Timestamp {
        let span = match self {
            Self::Day => 1.day(),
            Self::Month => 1.month(),
        };
        midnight(self.first_day(at).saturating_add(span))
    }

    fn first_day(self, at: Timestamp) -> Date {
        let date = date(at);
        match self {
            Self::Day => date,
            Self::Month => date.first_of_month(),
        }
    }
}

/// Whether `tag` belongs to a later period than `other`.
pub fn is_later(tag: u16, other: u16) -> bool {
    // The numbers wrap round, so the comparison reaches half of their range in either direction: ninety years of days.
    (1..0x8000).contains(&tag.wrapping_sub(other))
}

fn date(at: Timestamp) -> Date {
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    Offset::UTC.to_datetime(at).date()
}

fn midnight(date: Date) -> Timestamp {
    let at = Offset::UTC.to_timestamp(date.to_datetime(Time::midnight()));
    Timestamp(at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn periods_are_those_of_the_calendar() {
        let now = at("2024-02-29T23:59:59.999Z");
        assert_eq!(Period::Day.start(now), at("2024-02-29T00:00:00Z"));
        assert_eq!(Period::Day.end(now), at("2024-03-01T00:00:00Z"));
        assert_eq!(Period::Month.start(now), at("2024-02-01T00:00:00Z"));
        assert_eq!(Period::Month.end(now), at("2024-03-01T00:00:00Z"));
        assert_eq!(Period::Month.end(at("2026-12-31T12:00:00Z")), at("2027-01-01T00:00:00Z"));
    }

    #[test]
    fn tags_change_with_the_period_and_are_ordered() {
        for period in Period::ALL {
            let last = at("2026-12-31T23:59:59.999Z");
            let (before, after) = (period.tag(last), period.tag(Timestamp(last.0 + 1)));
            assert!(is_later(after, before) && !is_later(before, after) && !is_later(after, after));
            assert_eq!(before, period.tag(at("2026-12-31T00:00:00Z")));
        }
        assert!(is_later(0, u16::MAX));
    }
}
