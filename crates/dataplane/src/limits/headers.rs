//! What an answer says about limits: `x-ratelimit-*` in the form of the OpenAI API, and the warning of a budget.

use std::fmt::Write;

use bytes::Bytes;
use gantry_domain::{Timestamp, limit::gcra};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    account::{Account, Charges, Rate},
    admit::reaches,
    clock::Moment,
    limiter::Limiter,
    spending::WARN_PCT,
    state::Bucket,
};

/// Header names of one rate: limit, remaining, reset.
type Names = [HeaderName; 3];

static REQUESTS: Names = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
static TOKENS: Names = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];
static WARNING: HeaderName = HeaderName::from_static("x-gantry-budget-warning");

/// Adds what the caller's accounts allow now. If two limits of a kind apply, the one that has less left is shown. Limits in
/// shadow mode are not shown: clients should not slow down for them.
pub(crate) fn write(charges: &Charges, limiter: &Limiter, headers: &mut HeaderMap, now: Moment) {
    rate(charges, limiter, headers, now.nanos, &REQUESTS, |it| Some((it.rpm.as_ref()?, &it.state.requests)));
    rate(charges, limiter, headers, now.nanos, &TOKENS, |it| Some((it.tpm.as_ref()?, &it.state.tokens)));
    if let Some(warning) = warning(charges, now.at) {
        headers.insert(&WARNING, warning);
    }
}

fn rate<'a>(
    charges: &'a Charges,
    limiter: &Limiter,
    headers: &mut HeaderMap,
    now: u64,
    names: &Names,
    pick: impl Fn(&'a Account) -> Option<(&'a Rate, &'a Bucket)>,
) {
    let accounts = charges.0.iter().filter(|it| it.enforces());
    let rates = accounts.filter_map(|account| {
        let (rate, bucket) = pick(account)?;
        let tat = bucket.tat();
        let remaining = gcra::remaining(tat, now, rate.per_minute) / limiter.shares(&account.state, now);
        Some((remaining, rate, gcra::ahead(tat, now)))
    });
    let Some((remaining, rate, ahead)) = rates.min_by_key(|(remaining, ..)| *remaining) else { return };
    let [limit_name, remaining_name, reset_name] = names;
    headers.insert(limit_name, rate.shown.clone());
    // Both values share one piece of memory.
    let mut text = String::with_capacity(32);
    let _ = write!(text, "{remaining}");
    let middle = text.len();
    duration(&mut text, ahead);
    let text = Bytes::from(text);
    for (name, part) in [(remaining_name, text.slice(..middle)), (reset_name, text.slice(middle..))] {
        // Digits and letters are always accepted.
        if let Ok(value) = HeaderValue::from_maybe_shared(part) {
            headers.insert(name, value);
        }
    }
}

/// Nanoseconds as the OpenAI API writes times: `0s`, `17ms`, `8.64s`, `6m0s`, rounded up to milliseconds.
fn duration(text: &mut String, nanos: u64) {
    let ms = nanos.div_ceil(1_000_000);
    if (1..1000).contains(&ms) {
        let _ = write!(text, "{ms}ms");
        return;
    }
    let (minutes, ms) = (ms / 60_000, ms % 60_000);
    if minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    let _ = write!(text, "{}", ms / 1000);
    let fraction = ms % 1000;
    if fraction > 0 {
        let _ = write!(text, ".{fraction:03}");
        text.truncate(text.trim_end_matches('0').len());
    }
    text.push('s');
}

/// `key day 83%, organisation month 91%`
fn warning(charges: &Charges, at: Timestamp) -> Option<HeaderValue> {
    let mut text = String::new();
    for account in charges.0.iter().filter(|it| it.enforces()) {
        for (period, limit) in account.budgets() {
            let used = account.state.spendings.spent(period, at);
            if reaches(used, limit, WARN_PCT) {
                let comma = if text.is_empty() { "" } else { ", " };
                let pct = u128::from(used) * 100 / u128::from(limit.max(1));
                let _ = write!(text, "{comma}{} {} {pct}%", account.subject.word(), period.as_str());
            }
        }
    }
    if text.is_empty() { None } else { text.try_into().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_openai_does() {
        let shown = |ms: u64| {
            let mut text = String::new();
            duration(&mut text, ms * 1_000_000);
            text
        };
        for (ms, want) in [
            (0, "0s"),
            (17, "17ms"),
            (1_000, "1s"),
            (8_640, "8.64s"),
            (59_999, "59.999s"),
            (60_000, "1m0s"),
            (360_000, "6m0s"),
            (3_661_050, "61m1.05s"),
            (600_100, "10m0.1s"),
        ] {
            assert_eq!(shown(ms), want);
        }
        let mut text = String::new();
        duration(&mut text, 1);
        assert_eq!(text, "1ms");
    }
}
