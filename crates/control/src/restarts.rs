//! Counts how often models were started again without an operator, since this gateway started; for its metrics.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Most models that are counted by name; the rest is `other`, as in all metrics.
const MAX_MODELS: usize = 200;
const OTHER: &str = "other";

/// Counts by served name and reason.
#[derive(Debug, Default)]
pub struct Restarts(Mutex<BTreeMap<String, BTreeMap<&'static str, u64>>>);

impl Restarts {
    pub(crate) fn count(&self, served_name: &str, reason: &'static str) {
        let mut all = self.0.lock();
        let is_known = all.contains_key(served_name) || all.len() < MAX_MODELS;
        let name = if is_known { served_name } else { OTHER };
        *all.entry(name.to_owned()).or_default().entry(reason).or_default() += 1;
    }

    /// Returns all counts, each with its served name and reason.
    pub fn all(&self) -> Vec<(String, &'static str, u64)> {
        let all = self.0.lock();
        let rows = |(name, reasons): (&String, &BTreeMap<_, _>)| {
            reasons.iter().map(|(reason, n)| (name.clone(), *reason, *n)).collect::<Vec<_>>()
        };
        all.iter().flat_map(rows).collect()
    }
}
