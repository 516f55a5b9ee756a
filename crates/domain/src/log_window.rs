//! Selects lines of an engine's log.

use crate::Timestamp;

/// The last lines of a log that were printed at `since` or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogWindow {
    /// Most lines to return.
    pub tail: usize,
    /// The time is rounded down to whole seconds, so some lines may be up to a second older. `None`: from the
    /// beginning.
    pub since: Option<Timestamp>,
    /// Keep the colours that the engine printed, as escape sequences (SGR). All others are dropped in any case.
    pub colors: bool,
}

impl LogWindow {
    /// Returns the window of the last `tail` lines, whenever they were printed.
    pub fn last(tail: usize) -> Self {
        Self { tail, since: None, colors: false }
    }
}
