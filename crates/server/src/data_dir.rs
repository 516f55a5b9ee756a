//! `DATA_DIR` belongs to one gateway at a time, and so does a SQLite file.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::{account, secrets::private_dir};

/// Held while the gateway lives. The kernel lets go of it when the process dies, however that happens.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

/// Makes the directory if needed and locks it. Must be called before anything in it is touched and before ports are
/// bound, so that a second gateway fails with this error and no other, and changes nothing.
pub(crate) fn lock(dir: &Path) -> anyhow::Result<Lock> {
    private_dir(dir)?;
    account::check_made(dir)?;
    take(&dir.join("lock"), || {
        format!(
            "another gateway uses DATA_DIR ({}): stop it first, or give this one a DATA_DIR of its own",
            dir.display()
        )
    })
}

/// Locks the file of a SQLite database, which may be outside the data directory. The lock is on a file beside it:
/// releasing any lock on the database file itself would also release SQLite's own locks.
pub(crate) fn lock_database(file: &Path) -> anyhow::Result<Lock> {
    let real =
        real_path(file).with_context(|| file.display().to_string()).context("can't open the database")?;
    let mut path = real.into_os_string();
    path.push(".lock");
    let said = || {
        format!(
            "another gateway uses the database {}: stop it first, or give this one a database of its own",
            file.display()
        )
    };
    take(Path::new(&path), said)
}

/// Describes a database that can't be opened: the file and the files that SQLite keeps beside it, each with its mode
/// and its owner. A file beside it that another user's program left behind can prevent opening just as the database
/// file can.
pub(crate) fn describe_database(file: &Path) -> String {
    let found = ["", "-wal", "-shm"].iter().filter_map(|suffix| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        let meta = std::fs::metadata(&name).ok()?;
        Some(format!("{} (mode {:04o}, user {})", name.display(), meta.mode() & 0o7777, meta.uid()))
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() { file.display().to_string() } else { found.join(", ") }
}

/// Returns the canonical path of a file that may not exist yet, so that different names of one file give the same
/// path.
fn real_path(file: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(file)?;
    let (Some(dir), Some(name)) = (whole.parent(), whole.file_name()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    whole.canonicalize().or_else(|_| Ok(dir.canonicalize()?.join(name)))
}

fn take(path: &Path, taken: impl FnOnce() -> String) -> anyhow::Result<Lock> {
    let said = || format!("can't use {}", path.display());
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path).with_context(said)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => bail!(taken()),
        Err(TryLockError::Error(error)) => Err(error).with_context(said),
    }
}
