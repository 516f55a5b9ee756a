//! The error of work on a package that somebody ended.
//!
//! It has a type of its own, and not the kind [`io::ErrorKind::Interrupted`]: `write_all`, `read_exact` and `io::copy` try again
//! after that, for ever if the work is to end.

use std::io;

/// The work was to end before it was done.
#[derive(Debug, thiserror::Error)]
#[error("it was stopped")]
struct Stopped;

/// Returns the error with which readers and writers end work that is to stop.
pub fn stopped() -> io::Error {
    io::Error::other(Stopped)
}

/// Returns whether this is the error of [`stopped`].
pub fn is_stop(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Stopped>)
}
