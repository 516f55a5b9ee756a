//! The spool directory: which gateway owns it, and the names of its files.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use uuid::Uuid;

const LOCK: &str = "lock";
pub(super) const WATERMARK: &str = "watermark";

/// Held while a data plane runs. The kernel lets go of it when the process dies, however that happens.
#[derive(Debug)]
pub(crate) struct Lock {
    dir: PathBuf,
    boot: Uuid,
    file: Mutex<File>,
}

impl Lock {
    /// Creates the directory if needed, takes its lock and writes into the lock file that `boot` runs now.
    ///
    /// # Errors
    /// `WouldBlock` if another gateway has it; otherwise the file system's error.
    pub(crate) fn take(dir: &Path, boot: Uuid) -> io::Result<Self> {
        Ok(Self { dir: dir.to_owned(), boot, file: Mutex::new(Self::locked(dir, boot)?) })
    }

    /// Takes the lock again if somebody removed or replaced its file, or the whole directory. Returns whether that was so.
    ///
    /// # Errors
    /// As [`Lock::take`]: what is there now can't be used, and another gateway may take what this one writes for that of a
    /// dead one.
    pub(crate) fn keep(&self) -> io::Result<bool> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if is_in_place(&file, &self.dir.join(LOCK))? {
            return Ok(false);
        }
        *file = Self::locked(&self.dir, self.boot)?;
        Ok(true)
    }

    fn locked(dir: &Path, boot: Uuid) -> io::Result<File> {
        make(dir)?;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(dir.join(LOCK))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let message = format!("another gateway uses the spool directory `{}`", dir.display());
                io::Error::new(io::ErrorKind::WouldBlock, message)
            }
            TryLockError::Error(error) => error,
        })?;
        file.rewind()?;
        // The text has the same length each time, so nothing of an older one is left behind it.
        file.write_all(boot.simple().to_string().as_bytes())?;
        Ok(file)
    }
}

/// Makes the directory if it is not there, for its owner only.
pub(super) fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Returns whether the open `file` is the one that `path` names.
pub(super) fn is_in_place(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Returns the boot that runs now or ran last.
pub(super) fn live_boot(dir: &Path) -> io::Result<Option<Uuid>> {
    let mut text = String::new();
    match File::open(dir.join(LOCK)) {
        Ok(mut file) => file.read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(text.trim().parse().ok())
}

/// Name of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SegmentId {
    pub boot: Uuid,
    pub thread: u32,
    pub seq: u64,
}

impl SegmentId {
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}-{}.log", self.boot.simple(), self.thread, self.seq)
    }

    pub(super) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(self.file_name())
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".log")?.split('-');
        let id = Self {
            boot: parts.next()?.parse().ok()?,
            thread: parts.next()?.parse().ok()?,
            seq: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(id)
    }
}

/// Returns all segments, in the order in which each thread wrote them.
pub(super) fn segments(dir: &Path) -> io::Result<Vec<SegmentId>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        found.extend(entry?.file_name().to_str().and_then(SegmentId::parse));
    }
    found.sort_unstable();
    Ok(found)
}
