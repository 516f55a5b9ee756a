//! `DATA_DIR` belongs to one gateway at a time, and so does a SQLite file.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::secrets::private_dir;

/// Held while the gateway lives. The kernel lets go of it when the process dies, however that happens.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

/// Makes the directory if needed and takes it. To be called before anything in it is touched, and before ports are
/// bound: a second gateway must hear this reason and no other, and must change nothing.
pub(crate) fn lock(dir: &Path) -> anyhow::Result<Lock> {
    private_dir(dir)?;
    take(&dir.join("lock"), || {
        format!(
            "another gateway uses DATA_DIR ({}): stop it first, or give this one a DATA_DIR of its own",
            dir.display()
        )
    })
}

/// Takes the file of a SQLite database, which may lie anywhere. Not with a lock on the file itself: to let go of any lock
/// on it would take SQLite's own ones away.
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

/// For whoever has to find out why it can't be opened: the file and those that SQLite keeps beside it, each with its mode
/// and its owner. One that a program of another user left behind is as much in the way as the file itself.
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

/// The one path of a file that may not be there yet, whatever name it is called by.
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
