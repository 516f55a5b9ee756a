//! The usage ledger. Raw rows are stored in the order of time for as long as retention keeps them. Their sums by hour
//! and day are kept for ever.
//!
//! - [`insert`]: rows come in batches that may be repeated; the same transaction adds those that are new to the sums
//! - [`cells`]: what sums are made of, and how they are packed
//! - [`rollups`]: which parts of a range come from days, hours and raw rows
//! - [`select`]: filters over raw rows, each with its index
//! - [`list`]: pages of rows, found by the sums
//! - [`analysis`]: groups, series and percentiles
//! - [`spent`]: what counts against budgets
//! - [`keep`]: retention, compaction, and whether sums and rows agree
//! - [`fold`]: names of models that there never were
//!
//! A row's time is the one in its id, so a range of time is a range of the primary key.

mod analysis;
mod cells;
mod fold;
mod insert;
mod keep;
mod list;
mod rollups;
mod select;
mod spent;

use gantry_domain::{KeyId, OrgId, Timestamp, UserId, model::Task, usage::Outcome};

pub use analysis::{Bucket, GroupBy, GroupColumn, TimeKind, UsageGroup, UsageTimes};
pub use cells::UsageSums;
pub use keep::{UsageCheck, UsageSpan};
pub use list::UsageRef;
pub use spent::TokensSpent;

/// Milliseconds.
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// Selects requests by the HTTP status of their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusFilter {
    /// All codes with this first digit: 2 for `2xx`.
    Class(u8),
    /// This code.
    Exact(u16),
}

impl StatusFilter {
    /// Returns the first and the last status code.
    pub(crate) fn range(self) -> (i32, i32) {
        match self {
            Self::Class(digit) => (i32::from(digit) * 100, i32::from(digit) * 100 + 99),
            Self::Exact(code) => (code.into(), code.into()),
        }
    }
}

/// Conditions on usage. A request must meet all that are set.
#[derive(Debug, Clone)]
pub struct UsageFilter {
    /// Inclusive.
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    /// Served name.
    pub model: Option<String>,
    pub task: Option<Task>,
    pub key_id: Option<KeyId>,
    pub user_id: Option<UserId>,
    pub org_id: Option<OrgId>,
    pub status: Option<StatusFilter>,
    pub outcome: Option<Outcome>,
}

impl UsageFilter {
    /// Whether the latency of requests with this outcome counts. That of refused ones, who wait for no engine, counts only
    /// if an outcome or a status is asked for.
    pub fn has_latency_of(&self, outcome: Outcome) -> bool {
        !outcome.is_refused() || self.outcome.is_some() || self.status.is_some()
    }
}

impl Default for UsageFilter {
    /// Matches everything.
    fn default() -> Self {
        Self {
            from: Timestamp(0),
            to: Timestamp(i64::MAX),
            model: None,
            task: None,
            key_id: None,
            user_id: None,
            org_id: None,
            status: None,
            outcome: None,
        }
    }
}
