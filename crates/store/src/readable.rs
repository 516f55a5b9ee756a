//! Lists of which one row must not hold up the others.

use crate::{StoreError, StoreResult};

/// What was read of a table for somebody who goes on with what he gets.
#[derive(Debug)]
pub struct Readable<T> {
    pub rows: Vec<T>,
    /// [`StoreError::Corrupt`] for each row that this program can't read: another version, or somebody by hand, wrote it.
    pub bad: Vec<StoreError>,
}

impl<T> Readable<T> {
    /// Sorts rows by whether they decode.
    ///
    /// # Errors
    /// Those of `decode` that are not about a row.
    pub(crate) fn of<R>(rows: Vec<R>, decode: impl Fn(R) -> StoreResult<T>) -> StoreResult<Self> {
        let mut readable = Self { rows: Vec::with_capacity(rows.len()), bad: Vec::new() };
        for row in rows {
            match decode(row) {
                Ok(row) => readable.rows.push(row),
                Err(error @ StoreError::Corrupt { .. }) => readable.bad.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(readable)
    }
}
