//! Reads values as engines do, which take more than JSON's own numbers and truth values.

use super::scan::{self, JsonKind, Value};

/// pydantic's lax mode also takes `1`, `"true"` and friends; an engine that then streams must be treated so.
pub(super) fn is_true(text: &str, value: &Value) -> bool {
    let raw = &text[value.span.clone()];
    match value.kind {
        JsonKind::Literal => raw == "true",
        JsonKind::Number => number(raw) == Some(1.0),
        JsonKind::String => scan::string(raw).is_some_and(|it| {
            ["true", "1", "on", "t", "y", "yes"].iter().any(|word| it.trim().eq_ignore_ascii_case(word))
        }),
        JsonKind::Object | JsonKind::Array => false,
    }
}

/// Returns a number that is not negative (`-1` is "without limit" to llama.cpp), also when written as a string
/// (pydantic coerces those); fractions are cut off.
pub(super) fn count(text: &str, value: &Value) -> Option<u64> {
    as_number(text, value).filter(|it| *it >= 0.0).map(|it| it as u64)
}

pub(super) fn as_number(text: &str, value: &Value) -> Option<f64> {
    let raw = &text[value.span.clone()];
    match value.kind {
        JsonKind::Number => number(raw),
        JsonKind::String => scan::string(raw).and_then(|it| number(it.trim())),
        _ => None,
    }
}

fn number(raw: &str) -> Option<f64> {
    raw.replace('_', "").parse().ok()
}
