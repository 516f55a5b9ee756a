//! Remembers the SHA-256 of source files, so that an export does not read again what has not changed.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{checksums::Sha256Sum, manifest::FileEntry};

/// A file that was changed less than this before it was read may change again without another time: file systems count
/// time in ticks. Git calls such an entry racy (<https://git-scm.com/docs/racy-git>).
const RACY_NS: i64 = 3_000_000_000;
/// Largest difference between the times of modification that are the same, in milliseconds: FAT counts in steps of two
/// seconds.
const SAME_TIME_MS: i64 = 2000;
/// Most files that are remembered.
const MOST: usize = 1_000_000;

/// What tells one state of a file from another, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ident {
    device: u64,
    inode: u64,
    /// Bytes.
    pub(crate) size: u64,
    modified_ns: i64,
    /// When the kernel last changed anything about the file. Unlike the time of modification, no program can set it.
    changed_ns: i64,
}

impl Ident {
    /// Returns what tells this state of a file.
    pub fn of(found: &Metadata) -> Self {
        // Enough for the years 1678 to 2262.
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        }
    }

    /// When the content was changed last, in milliseconds since 1970.
    pub(crate) fn modified_ms(&self) -> i64 {
        self.modified_ns.div_euclid(1_000_000)
    }
}

/// Sums of files by their [`Ident`].
#[derive(Debug, Default)]
pub struct Sums {
    /// Where they are stored; nowhere if it is `None`.
    path: Option<PathBuf>,
    pub(super) known: BTreeMap<Ident, Sha256Sum>,
    pub(super) changed: bool,
    /// The file at `path`, once something was added to it.
    log: Option<File>,
    /// When this run began, in nanoseconds since 1970.
    began_ns: i64,
}

impl Sums {
    /// Reads what was stored at `path`, at the time `now_ms` (milliseconds since 1970). Lines that can't be read are
    /// forgotten: they only save time.
    pub fn load(path: &Path, now_ms: i64) -> Self {
        let mut known = BTreeMap::new();
        if let Ok(file) = File::open(path) {
            for line in BufReader::new(file).lines().map_while(Result::ok).take(MOST) {
                if let Ok((ident, sum)) = serde_json::from_str(&line) {
                    known.insert(ident, sum);
                }
            }
        }
        Self {
            path: Some(path.to_owned()),
            known,
            changed: false,
            log: None,
            began_ns: now_ms.saturating_mul(1_000_000),
        }
    }

    /// Returns the sum of a file in this state.
    pub fn get(&self, ident: &Ident) -> Option<Sha256Sum> {
        self.known.get(ident).copied()
    }

    /// Remembers the sum of a file, even if this run is killed. A file that was changed just before this run, or since, is not
    /// remembered.
    pub fn put(&mut self, ident: Ident, sum: Sha256Sum) {
        if ident.changed_ns < self.began_ns.saturating_sub(RACY_NS) {
            self.remember(ident, sum);
        }
    }

    /// Remembers the sum of a file that was just written into the folder of an export, where nobody else writes.
    pub(super) fn put_written(&mut self, ident: Ident, sum: Sha256Sum) {
        self.remember(ident, sum);
    }

    fn remember(&mut self, ident: Ident, sum: Sha256Sum) {
        if self.known.len() < MOST {
            self.known.insert(ident, sum);
            self.changed = true;
            // What can't be stored here is stored at the end, where an error is reported.
            let _ = self.log(&ident, sum);
        }
    }

    /// Adds a line to the file. The disk may store it later: what a power failure takes, or cuts, only costs time.
    fn log(&mut self, ident: &Ident, sum: Sha256Sum) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut line = serde_json::to_vec(&(ident, sum))?;
        line.push(b'\n');
        let file = match &mut self.log {
            Some(file) => file,
            None => self.log.insert(OpenOptions::new().append(true).create(true).mode(0o600).open(path)?),
        };
        file.write_all(&line)
    }

    /// Stores what is remembered.
    pub fn store(&mut self) -> io::Result<()> {
        let Some(path) = self.path.as_ref().filter(|_| self.changed) else { return Ok(()) };
        let part = path.with_extension("part");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        let mut out = BufWriter::new(file);
        for line in &self.known {
            serde_json::to_writer(&mut out, &line)?;
            out.write_all(b"\n")?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&part, path)?;
        (self.changed, self.log) = (false, None);
        Ok(())
    }
}

/// Returns whether a file still has the size and the time of modification that it was written with. Both can be so with another
/// content: this only spares the reading of a file that is another one for certain.
pub(super) fn is_as_it_was(path: &Path, entry: &FileEntry) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let modified = Ident::of(&found).modified_ms();
    found.is_file()
        && found.len() == entry.size
        && entry.modified_at.is_some_and(|it| (it - modified).abs() <= SAME_TIME_MS)
}
