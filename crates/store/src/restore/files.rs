//! The files of a SQLite database: itself, and what SQLite puts beside it.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// What follows the name of the database in the names of its files. The database itself is the first one.
pub(super) const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Returns the path with a suffix after its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes all files of a database, as far as they are there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for suffix in SUFFIXES {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes renames in the folder of a file durable.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(folder)?.sync_all()
}

/// The files of a scratch database. Dropping this removes them.
#[derive(Debug)]
pub(super) struct ScratchFile(Option<PathBuf>);

impl ScratchFile {
    /// Makes an empty file, readable for its owner only.
    ///
    /// # Errors
    /// It is there already, or can't be made.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self(Some(path.to_owned())))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }

    /// Leaves the files where they are.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        if let Err(error) = remove(path) {
            tracing::warn!(path = %path.display(), error = %error, "a scratch database could not be removed");
        }
    }
}
