//! The step in which a new SQLite file takes the name of an old one, so that a kill at any moment leaves one of them.
//!
//! A file beside the database, the marker, is written first. From then on the new file counts: the next program that
//! opens the database completes the step ([`finish_pending`]). The old log (`-wal`) is moved away before the new file gets
//! its name, because SQLite would apply it to any file of that name.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    StoreError, StoreResult,
    restore::files::{SUFFIXES, sync_folder, with_suffix},
};

/// Suffix of the new file until it has its name.
pub(super) const NEW: &str = ".restored";
/// Suffix of the marker.
const MARKER: &str = ".restore-pending";

/// The content of the marker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pending {
    /// The name under which the old file is kept, in the same folder.
    pub(super) kept: String,
}

/// Completes a restore of the SQLite file `target` that was interrupted after its new file was complete. Without one it
/// does nothing. [`crate::Store::open`] calls this.
///
/// # Errors
/// [`StoreError::Address`] if the files can't be renamed. Then the database must not be opened: it is neither the old nor
/// the new one yet.
pub fn finish_pending(target: &Path) -> StoreResult<()> {
    finish(target).map_err(|error| at(target, &error))
}

pub(super) fn at(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Address(format!("{}: {error}", path.display()))
}

/// Writes the marker; once this returns, it is on the disk.
pub(super) fn mark(target: &Path, pending: &Pending) -> io::Result<()> {
    let (marker, part) = (with_suffix(target, MARKER), with_suffix(target, ".restore-pending.part"));
    let mut file = File::create(&part)?;
    file.write_all(&serde_json::to_vec(pending)?)?;
    file.sync_all()?;
    // The new file's name has to be on the disk before the marker is.
    sync_folder(target)?;
    fs::rename(part, marker)?;
    sync_folder(target)
}

fn finish(target: &Path) -> io::Result<()> {
    let (marker, new) = (with_suffix(target, MARKER), with_suffix(target, NEW));
    let text = match fs::read(&marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    let pending: Pending = serde_json::from_slice(&text)?;
    // If there is no new file, it has its name already.
    if new.try_exists()? {
        let kept = target.with_file_name(&pending.kept);
        for suffix in SUFFIXES {
            let (from, to) = (with_suffix(target, suffix), with_suffix(&kept, suffix));
            if from.try_exists()? && !to.try_exists()? {
                fs::rename(from, to)?;
            }
        }
        sync_folder(target)?;
        fs::rename(new, target)?;
        sync_folder(target)?;
    }
    fs::remove_file(marker)?;
    sync_folder(target)
}
