//! The usage spool: append-only files on local disk between the request path and the database, so that each request
//! that passed authentication ends in exactly one row, even if processes are killed at any time.
//!
//! An *intent* (the row as it would be if the gateway died now) is written before a request goes to an engine, the
//! *final* row before the last byte of the answer leaves. A record is copied into a file that is mapped into memory and whose
//! blocks are allocated before (ext4, XFS, tmpfs), or is one `write(2)` to a file opened for appending. Either way it is in
//! the page cache then, which survives `kill -9`. Against power loss a segment is synced when it is closed, no sooner.
//!
//! Files are named `<boot>-<thread>-<segment>.log`; `boot` is a UUID made at start. The file `lock` is locked while a
//! data plane runs and holds its boot; `watermark` records how far rows have been stored.

mod codec;
mod dir;
mod reader;
mod writer;

pub use reader::{Batch, Reader};

pub(crate) use codec::RowRef;
pub(crate) use dir::Lock;
pub(crate) use writer::{Closed, SegmentLimits, Writer};

#[cfg(test)]
mod tests;
