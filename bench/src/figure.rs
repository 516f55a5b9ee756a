//! Figures with the limits that they must meet.

use std::fmt::Write as _;

use serde::Serialize;

/// One figure and the limit that it must meet.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// Slowest of the calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<f64>,
    pub(crate) must: f64,
    pub(crate) ok: bool,
}

impl Figure {
    pub(crate) fn at_most(what: &str, value: f64, unit: &'static str, must: f64) -> Self {
        Self { what: what.to_owned(), value, unit, max: None, must, ok: value <= must }
    }

    pub(crate) fn at_least(what: &str, value: f64, unit: &'static str, must: f64) -> Self {
        Self { ok: value >= must, ..Self::at_most(what, value, unit, must) }
    }
}

/// Formats the figures, a line for each.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut out = String::new();
    for it in figures {
        let ok = if it.ok { "ok" } else { "MISSED" };
        let max = it.max.map_or_else(String::new, |max| format!(" (max {max:.1})"));
        let value = format!("{:.*} {}", if it.unit.is_empty() { 4 } else { 1 }, it.value, it.unit);
        // Writing to a string can't fail.
        let _ = writeln!(out, "{:<75}{value:>16}{max:<16} must {:<8}{ok}", it.what, it.must);
    }
    out
}
