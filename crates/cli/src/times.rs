//! Parses times as people write them: `week`, `7d`, `2026-11-16`. Days, weeks and months are those of the calendar in
//! this machine's time zone, or in UTC with `--utc`; weeks begin on Monday (ISO 8601).

use std::time::Duration;

use gantry_domain::Timestamp;
use jiff::{Zoned, civil, tz::TimeZone};

pub(crate) fn now() -> Timestamp {
    gantry_domain::Clock::default().now()
}

/// Returns the time zone in which days begin.
pub(crate) fn zone(utc: bool) -> TimeZone {
    if utc { TimeZone::UTC } else { TimeZone::system() }
}

/// Returns the time that `text` means, counted back from `now`. Other text is returned unchanged, for the gateway to
/// judge.
pub(crate) fn past(text: &str, now: Timestamp, zone: &TimeZone) -> String {
    if let Some(span) = span(text) {
        return Timestamp(now.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
            .rfc3339();
    }
    day(text, now, zone).and_then(|day| day.to_zoned(zone.clone()).ok()).map_or_else(
        || text.to_owned(),
        |start: Zoned| Timestamp(start.timestamp().as_millisecond()).rfc3339(),
    )
}

/// Returns the time that lies a span after `now`. Other text is returned unchanged, for the gateway to judge.
pub(crate) fn ahead(text: &str, now: Timestamp) -> String {
    span(text).map_or_else(|| text.to_owned(), |span| now.plus(span).rfc3339())
}

/// Returns how long ago a time was, in its largest unit: `3 days ago`. `None` if it is no RFC 3339 time.
pub(crate) fn ago(text: &str, now: Timestamp) -> Option<String> {
    let seconds = (now.0 - Timestamp::parse_rfc3339(text)?.0).max(0) / 1000;
    let (n, unit) = match seconds {
        0..60 => return Some("just now".to_owned()),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    Some(if n == 1 { format!("1 {unit} ago") } else { format!("{n} {unit}s ago") })
}

fn day(text: &str, now: Timestamp, zone: &TimeZone) -> Option<civil::Date> {
    let today = || Some(jiff::Timestamp::from_millisecond(now.0).ok()?.to_zoned(zone.clone()).date());
    match text {
        "today" => today(),
        "week" => {
            let today = today()?;
            let n_days = i64::from(today.weekday().to_monday_zero_offset());
            today.checked_sub(jiff::Span::new().days(n_days)).ok()
        }
        "month" => Some(today()?.first_of_month()),
        // Only accept a date alone: jiff would also take the date from a full timestamp.
        _ if text.len() == "2026-11-16".len() => text.parse().ok(),
        _ => None,
    }
}

fn span(text: &str) -> Option<Duration> {
    let (at, unit) = text.char_indices().last()?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let n: u64 = text[..at].parse().ok().filter(|it| *it <= 100_000)?;
    Some(Duration::from_secs(n * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn the_past_is_told_in_its_largest_unit() {
        let now = at("2026-11-21T12:00:00Z");
        for (text, told) in [
            ("2026-11-21T12:00:30Z", "just now"),
            ("2026-11-21T11:59:00Z", "1 minute ago"),
            ("2026-11-21T07:00:00Z", "5 hours ago"),
            ("2026-11-18T11:00:00Z", "3 days ago"),
        ] {
            assert_eq!(ago(text, now).as_deref(), Some(told));
        }
        assert_eq!(ago("yesterday", now), None);
    }

    #[test]
    fn a_week_begins_on_monday_at_midnight_where_one_is() {
        let offset = |hours| TimeZone::fixed(jiff::tz::offset(hours));
        // Sunday evening in New York is Monday in UTC.
        let now = at("2026-11-16T02:30:00Z");
        for (text, zone, start) in [
            ("week", offset(0), "2026-11-16T00:00:00Z"),
            ("week", offset(-5), "2026-11-09T05:00:00Z"),
            ("today", offset(-5), "2026-11-15T05:00:00Z"),
            ("month", offset(-5), "2026-11-01T05:00:00Z"),
            ("month", offset(9), "2026-10-31T15:00:00Z"),
            ("2026-11-02", offset(9), "2026-11-01T15:00:00Z"),
            ("7d", offset(9), "2026-11-09T02:30:00Z"),
        ] {
            assert_eq!(at(&past(text, now, &zone)), at(start), "{text}");
        }
        for other in ["2026-11-16T00:00:00Z", "2026-13-01", "yesterday", "d", "-1d", "", "1é"] {
            assert_eq!(past(other, now, &TimeZone::UTC), other);
        }
    }

    #[test]
    fn a_span_counts_from_now() {
        let now = at("2026-11-21T07:00:00Z");
        assert_eq!(ahead("2d", now), now.plus(Duration::from_hours(48)).rfc3339());
        for other in ["2026-12-01T00:00:00Z", "soon", "d", "", "1é"] {
            assert_eq!(ahead(other, now), other);
        }
    }
}
