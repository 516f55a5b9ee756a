//! Lists in which one unreadable row must not hide the others.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::{StoreError, StoreResult};

/// The errors of rows that lists left out since the program began. Kept in memory for this process only, as its log is.
static LEFT_OUT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// Most errors that are remembered, so that a table full of unreadable rows doesn't use unbounded memory.
const REMEMBERED: usize = 10_000;

/// Returns how many rows the lists of this process left out because they can't be read. Each row counts once.
pub fn left_out() -> usize {
    LEFT_OUT.lock().len()
}

/// The rows of a table that could be read, for callers that go on without the others.
#[derive(Debug)]
pub struct Decoded<T> {
    pub rows: Vec<T>,
    /// [`StoreError::Corrupt`] for each row that this program can't read, because another version or a person by hand
    /// wrote it.
    pub bad: Vec<StoreError>,
}

impl<T> Decoded<T> {
    /// Returns the readable rows, for a list that is shown. Each of the others is logged once.
    pub fn shown(self) -> Vec<T> {
        let mut known = LEFT_OUT.lock();
        for row in self.bad.iter().map(ToString::to_string) {
            if known.len() < REMEMBERED && known.insert(row.clone()) {
                tracing::error!(row, "left out of lists until it can be read");
            }
        }
        self.rows
    }

    /// Sorts rows by whether they decode.
    ///
    /// # Errors
    /// Those of `decode` that are not about a row.
    pub(crate) fn of<R>(rows: Vec<R>, decode: impl Fn(R) -> StoreResult<T>) -> StoreResult<Self> {
        let mut decoded = Self { rows: Vec::with_capacity(rows.len()), bad: Vec::new() };
        for row in rows {
            match decode(row) {
                Ok(row) => decoded.rows.push(row),
                Err(error @ StoreError::Corrupt { .. }) => decoded.bad.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(decoded)
    }
}
