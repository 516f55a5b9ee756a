//! `DATA_DIR` belongs to one gateway at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt,
    path::Path,
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
    let path = dir.join("lock");
    let said = || format!("can't use {}", path.display());
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path).with_context(said)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => bail!(
            "another gateway uses DATA_DIR ({}): stop it first, or give this one a DATA_DIR of its own",
            dir.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(said),
    }
}
