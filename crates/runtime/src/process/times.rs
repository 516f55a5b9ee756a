//! Records when an engine printed what, for `since`: beside each of its log files is one with the times of its bytes.
//!
//! A file has one record of 16 bytes for each second in which something was written: the offset in the log of the first byte
//! of that second, and the second (Unix time), both as 64-bit little-endian numbers. Its first record names the log's
//! inode in place of an offset, and 0 as its second, so that files that are being rotated are not taken for each other.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use gantry_domain::Timestamp;

const RECORD: usize = 16;
/// Most records of a file, 1 MiB. After that the log begins a new file.
pub(super) const MAX_RECORDS: u64 = 1 << 16;

/// Returns the path of the file with the times of a log file.
pub(super) fn path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".times");
    name.into()
}

/// Writes the times of one log file.
#[derive(Default)]
pub(super) struct Times {
    file: Option<File>,
    last: Option<i64>,
    written: u64,
}

impl Times {
    /// Opens the times of the log file at `path`, which is open as `log`. If there can be no times, all lines always
    /// count as new.
    pub(super) fn open(path: &Path, log: &File) -> Self {
        let open = || -> io::Result<Self> {
            let mut options = OpenOptions::new();
            let mut file = options.create(true).append(true).mode(0o600).open(self::path(path))?;
            let written = file.metadata()?.len() / RECORD as u64;
            if written == 0 {
                file.write_all(&record(log.metadata()?.ino(), 0))?;
            }
            Ok(Self { file: Some(file), last: None, written: written.max(1) })
        };
        open().unwrap_or_default()
    }

    /// Notes that something is written at `offset` now.
    pub(super) fn note(&mut self, offset: u64, now: Timestamp) {
        let second = now.0.div_euclid(1000);
        if self.last == Some(second) {
            return;
        }
        self.last = Some(second);
        self.written += 1;
        if let Some(file) = &mut self.file
            && file.write_all(&record(offset, second.cast_unsigned())).is_err()
        {
            self.file = None;
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.written >= MAX_RECORDS
    }
}

fn record(offset: u64, second: u64) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&offset.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

/// Returns the byte from which on the log file at `path`, which is open as `log`, was written at `since` or later.
/// Returns its length if no part of it was, and 0 if that is not known.
pub(super) fn offset(path: &Path, log: &File, since: Timestamp) -> io::Result<u64> {
    let bytes = match fs::read(self::path(path)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let of = log.metadata()?;
    let mut records = bytes.chunks_exact(RECORD).map(|it| {
        let number =
            |at: usize| it[at..at + 8].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        (number(0), number(8).cast_signed())
    });
    if records.next() != Some((of.ino(), 0)) {
        return Ok(0);
    }
    let since = since.0.div_euclid(1000);
    Ok(records.find(|(_, second)| *second >= since).map_or(of.len(), |(offset, _)| offset))
}
