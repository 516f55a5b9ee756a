//! Limits and budgets of keys and organisations, as options and as text.

use clap::{Arg, ArgMatches, Command};
use serde_json::{Map, Value};

use crate::text::{cell, count};

/// Option, field of the API, what it limits.
const LIMITS: [(&str, &str, &str); 6] = [
    ("rpm", "rpm_limit", "Requests a minute"),
    ("tpm", "tpm_limit", "Tokens a minute, prompt and completion"),
    ("max-concurrency", "max_concurrency", "Requests at the same time"),
    ("max-streams", "max_streams", "Streamed answers at the same time"),
    ("budget-day", "budget_tokens_day", "Tokens in a day (UTC)"),
    ("budget-month", "budget_tokens_month", "Tokens in a month (UTC)"),
];
const NONE: &str = "none";

pub(crate) const EXPLAINED: &str =
    "Limits are whole numbers such as 60, 200k, 5M or 1G; `none` removes a limit.";

/// Value of an option: a number, or `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(Option<i64>);

pub(crate) fn options(command: Command) -> Command {
    let arg = |(name, _, help)| Arg::new(name).long(name).value_name("N").value_parser(read).help(help);
    command.args(LIMITS.map(arg))
}

fn read(text: &str) -> Result<Limit, String> {
    if text == NONE {
        return Ok(Limit(None));
    }
    let (digits, scale) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let n = digits.parse::<i64>().ok().and_then(|it| it.checked_mul(scale)).filter(|it| *it > 0);
    n.map(|it| Limit(Some(it)))
        .ok_or_else(|| format!("a number of at least 1, such as 60, 200k or 5M, or `{NONE}`"))
}

/// Puts the limits that are given into a request body.
pub(crate) fn put(matches: &ArgMatches, body: &mut Map<String, Value>) {
    for (name, field, _) in LIMITS {
        if let Some(Limit(n)) = matches.get_one::<Limit>(name) {
            body.insert(field.to_owned(), (*n).into());
        }
    }
}

/// Each limit's field of the API with its unit.
pub(crate) fn units() -> impl Iterator<Item = (&'static str, &'static str)> {
    let units = ["requests/min", "tokens/min", "at once", "streams", "tokens/day", "tokens/month"];
    LIMITS.iter().map(|(_, field, _)| *field).zip(units)
}

/// Returns the limits of a record on one line; `-` for none.
pub(crate) fn line(record: &Value) -> String {
    let set = units().filter(|(field, _)| !record[*field].is_null());
    let parts: Vec<_> = set.map(|(field, unit)| format!("{} {unit}", count(&record[field]))).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// Returns the used part of the budgets: `day 83 %, month 12 %`; `-` without a budget.
pub(crate) fn used(record: &Value) -> String {
    let part = |name: &str| {
        let budget = &record["budget"][name];
        (!budget.is_null()).then(|| format!("{name} {} %", cell(&budget["pct"])))
    };
    let parts: Vec<_> = ["day", "month"].into_iter().filter_map(part).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// Returns whether a budget is nearly used up.
pub(crate) fn warns(record: &Value) -> bool {
    ["day", "month"].iter().any(|it| record["budget"][*it]["warning"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_short_and_nothing_is_guessed() {
        for (text, n) in [("60", 60), ("200k", 200_000), ("5M", 5_000_000), ("1G", 1_000_000_000)] {
            assert_eq!(read(text), Ok(Limit(Some(n))), "{text}");
        }
        assert_eq!(read("none"), Ok(Limit(None)));
        for wrong in ["", "k", "0", "-1", "1.5M", "5m", "9999999999999G", "1 000", "é"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
