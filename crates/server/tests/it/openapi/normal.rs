//! Takes out of examples what differs from machine to machine and from moment to moment.

use std::collections::BTreeMap;

use gantry_domain::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

const MOMENT: &str = "2026-01-02T03:04:05.678Z";
const MOMENT_MS: u64 = 1_767_323_045_678;
/// Numbers that were measured, by the name of their field.
const FIGURES: &[(&str, f64)] = &[
    ("available_bytes", 810_000_000_000.0),
    ("avg_ms", 57.0),
    ("bytes_written", 3_300_000_000.0),
    ("duration_ms", 5200.0),
    ("database", 217_088.0),
    ("elapsed_sec", 5.0),
    ("estimated_bytes", 3_300_000_000.0),
    ("estimated_size_bytes", 3_300_000_000.0),
    ("gateway", 46_000_000.0),
    ("host_ram_available_gb", 96.5),
    ("free_bytes", 810_000_000_000.0),
    ("latency_ms", 41.0),
    ("latency_p50_ms", 41.0),
    ("latency_p95_ms", 97.0),
    ("new_bytes", 3_200_000_000.0),
    ("p50_ms", 41.0),
    ("p95_ms", 97.0),
    ("p99_ms", 143.0),
    ("required_bytes", 3_960_000_000.0),
    ("seq", 29.0),
    ("size_bytes", 3_300_000_000.0),
    ("size_mb", 98.4),
    ("total_bytes", 1_900_000_000_000.0),
    ("ttft_ms", 12.0),
    ("ttft_p50_ms", 12.0),
    ("ttft_p95_ms", 19.0),
    ("weights_bytes", 3_200_000_000.0),
];
/// Fields with a moment as a number: seconds since 1970 and their fractions.
const MOMENTS_SEC: &[&str] = &["started_at", "finished_at"];
/// Fields with a moment as a number: milliseconds since 1970, or seconds.
const MOMENTS: &[&str] = &["created", "created_at", "timestamp", "updated_at"];

/// The examples as any machine would give them; `places` are directories of this one, with what stands for each.
pub(super) fn normal(examples: &Value, places: &[(String, &str)]) -> Value {
    let mut ids = BTreeMap::new();
    collect(examples, &mut ids);
    let words: Vec<(String, String)> =
        places.iter().map(|(place, shown)| (place.clone(), (*shown).to_owned())).chain(ids).collect();
    Normal { words }.value("", examples)
}

/// Every UUID that is a value, with a number in its place. Such as are part of a path are found by it.
fn collect(value: &Value, ids: &mut BTreeMap<String, String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|it| collect(it, ids)),
        Value::Object(map) => map.values().for_each(|it| collect(it, ids)),
        Value::String(text) if Uuid::try_parse(text).is_ok() && text.len() == 36 => {
            let n = ids.len() + 1;
            ids.entry(text.clone()).or_insert_with(|| format!("01900000-0000-7000-8000-{n:012}"));
        }
        _ => {}
    }
}

/// A word of a log; day and time of day as they were never.
fn clock(word: &str) -> String {
    let digits = |mark: char, n: usize| {
        let parts: Vec<&str> = word.trim_end().split(mark).collect();
        parts.len() == n && parts.iter().all(|it| it.len() == 2 && it.bytes().all(|it| it.is_ascii_digit()))
    };
    let rest = &word[word.trim_end().len()..];
    if digits('-', 2) {
        format!("01-02{rest}")
    } else if digits(':', 3) {
        format!("03:04:05{rest}")
    } else {
        word.to_owned()
    }
}

/// Returns a text with the usual data directory in place of the temporary one of a gateway under test.
fn data_dir(text: &str) -> String {
    let temporary = std::env::temp_dir().join(".tmp");
    let found = text.split_once(temporary.to_string_lossy().as_ref());
    match found.and_then(|(before, rest)| Some((before, rest.split_once("/data/")?.1))) {
        Some((before, after)) => format!("{before}/var/lib/gantry/{after}"),
        None => text.to_owned(),
    }
}

/// Whether a text is a number of bytes for people, such as `1.5 GiB`.
fn is_size(text: &str) -> bool {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    text.split_once(' ').is_some_and(|(n, unit)| n.parse::<f64>().is_ok() && units.contains(&unit))
}

struct Normal {
    words: Vec<(String, String)>,
}

impl Normal {
    fn value(&self, name: &str, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|it| self.value(name, it)).collect(),
            Value::Object(map) => map.iter().map(|(name, it)| (name.clone(), self.value(name, it))).collect(),
            Value::String(text) => self.text(name, text).into(),
            Value::Number(number) => {
                if MOMENTS.contains(&name) && number.as_u64().is_some_and(|it| it > 1_000_000_000) {
                    let ms = number.as_u64().is_some_and(|it| it > 1_000_000_000_000);
                    return if ms { MOMENT_MS } else { MOMENT_MS / 1000 }.into();
                }
                if MOMENTS_SEC.contains(&name) {
                    return json!(MOMENT_MS as f64 / 1000.0);
                }
                match FIGURES.iter().find(|it| it.0 == name) {
                    Some((_, figure)) if figure.fract() == 0.0 => json!(*figure as i64),
                    Some((_, figure)) => json!(figure),
                    None => value.clone(),
                }
            }
            other => other.clone(),
        }
    }

    fn text(&self, name: &str, text: &str) -> String {
        if Timestamp::parse_rfc3339(text).is_some() {
            return MOMENT.to_owned();
        }
        match name {
            "hash" | "manifest_sha256" => return "b".repeat(64),
            "prev_hash" => return "a".repeat(64),
            // How long a start took.
            "detail" if text.starts_with("after ") => return "after 5.2 s".to_owned(),
            "revision" => return "kXz0w3J5mQ8vB2aT".to_owned(),
            "prefix" | "key_prefix" => return "gty_00000000".to_owned(),
            _ if is_size(text) => return "3.1 GiB".to_owned(),
            _ => {}
        }
        let text = if name == "logs" {
            text.split_inclusive([' ', '\n']).map(clock).collect()
        } else {
            text.to_owned()
        };
        let text = data_dir(&text);
        let mut text = self.words.iter().fold(text, |text, (word, shown)| text.replace(word, shown));
        // A port of this moment.
        for host in ["127.0.0.1:", "--port "] {
            if let Some((before, after)) = text.split_once(host) {
                let rest = after.trim_start_matches(|it: char| it.is_ascii_digit());
                if rest.len() < after.len() {
                    text = format!("{before}{host}8000{rest}");
                }
            }
        }
        // Such as `chatcmpl-` and 16 digits.
        match text.rsplit_once(['-', '_']) {
            Some((start, digits))
                if digits.len() == 16 && digits.bytes().all(|it| it.is_ascii_hexdigit()) =>
            {
                let n_start = start.len() + 1;
                format!("{}{}", &text[..n_start], "0".repeat(16))
            }
            _ => text,
        }
    }
}
