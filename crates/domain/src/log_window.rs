//! Which lines of an engine's log are wanted.

use crate::Timestamp;

/// The last lines of a log, as far as they were printed at `since` or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogWindow {
    /// How many lines at most.
    pub tail: usize,
    /// Rounded down to whole seconds, so some lines may be up to a second older. `None`: from the beginning.
    pub since: Option<Timestamp>,
}

impl LogWindow {
    /// The last `tail` lines, whenever they were printed.
    pub fn last(tail: usize) -> Self {
        Self { tail, since: None }
    }
}
