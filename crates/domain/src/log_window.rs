//! Which lines of an engine's log are wanted.

use crate::Timestamp;

/// The last lines of a log, as far as they were printed at `since` or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogWindow {
    /// How many lines at most.
    pub tail: usize,
    /// To the second: lines of the same second before it are there, too. `None`: from the beginning.
    pub since: Option<Timestamp>,
}

impl LogWindow {
    /// The last `tail` lines, whenever they were printed.
    pub fn last(tail: usize) -> Self {
        Self { tail, since: None }
    }
}
