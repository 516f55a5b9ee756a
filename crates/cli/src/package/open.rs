//! Opens a package: reads its manifest, once, so that what is verified is what was signed.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use gantry_package::manifest::{LARGEST, MANIFEST, Manifest, ManifestError};
use rustix::fs::{Mode, OFlags};

use crate::exit::{Failure, Outcome};

/// A package whose manifest was read.
pub(super) struct Package {
    dir: PathBuf,
    manifest: Manifest,
    text: Vec<u8>,
}

impl Package {
    /// Reads the manifest of the package in this folder.
    ///
    /// # Errors
    /// [`Failure::NotFound`] if there is no package, [`Failure::Damaged`] if its manifest is malformed,
    /// [`Failure::Failed`] if it can't be read or is of a newer format.
    pub(super) fn open(dir: &str) -> Outcome<Self> {
        let dir = PathBuf::from(dir);
        let text = read(&dir.join(MANIFEST)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Failure::NotFound(format!("{} is not a package: it has no {MANIFEST}", dir.display()))
            }
            _ => Failure::Failed(format!("can't read {}: {error}", dir.join(MANIFEST).display())),
        })?;
        let manifest = Manifest::parse(&text).map_err(|error| {
            let text = format!("{}: {error}", dir.join(MANIFEST).display());
            if matches!(error, ManifestError::Newer(_)) {
                Failure::Failed(text)
            } else {
                Failure::Damaged(text)
            }
        })?;
        Ok(Self { dir, manifest, text })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the bytes that the manifest was read from.
    pub(super) fn manifest_text(&self) -> &[u8] {
        &self.text
    }
}

/// Reads a manifest, but no link, and no more of it than a manifest may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    Ok(text)
}
