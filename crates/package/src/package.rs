//! A package in a folder: its manifest, and the contents of its files wherever they lie.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::{
    checksums::Sha256Sum,
    manifest::{FileEntry, LARGEST, MANIFEST, Manifest, ManifestError, STAGING},
    path::PackagePath,
};

/// A package whose manifest was read. Nothing else of it was read yet.
#[derive(Debug)]
pub struct Package {
    dir: PathBuf,
    manifest: Manifest,
    manifest_text: Vec<u8>,
    base: Option<Box<BasePackage>>,
}

/// The package that a difference needs.
#[derive(Debug)]
struct BasePackage {
    package: Package,
    /// Its files by content: a file may have another name in the difference.
    by_content: HashMap<(Sha256Sum, u64), PackagePath>,
}

/// Why a folder can't be read as a package.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is not a package: it has no {MANIFEST}", .0.display())]
    NoManifest(PathBuf),
    #[error("the export into {} has not ended: run it again to complete the package", .0.display())]
    Incomplete(PathBuf),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{} is the package {found}, and the difference needs the package {needed}", dir.display())]
    OtherBase { dir: PathBuf, found: String, needed: String },
    #[error("{} is the package {id} with another manifest than the difference was made from", dir.display())]
    ChangedBase { dir: PathBuf, id: String },
    #[error("the package is complete by itself and needs no base")]
    NeedsNoBase,
}

impl Package {
    /// Reads the manifest of the package in the folder `dir`.
    ///
    /// # Errors
    /// There is no complete package in the folder, or its manifest can't be used.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(MANIFEST);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound if dir.join(STAGING).exists() => OpenError::Incomplete(dir.to_owned()),
            io::ErrorKind::NotFound if dir.exists() => OpenError::NoManifest(dir.to_owned()),
            _ => OpenError::Io { path: path.clone(), error },
        };
        let file = open_file(&path).map_err(failed)?;
        let mut text = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
        // An export whose manifest is there already is putting its files in place.
        if dir.join(STAGING).join(MANIFEST).try_exists().map_err(failed)? {
            return Err(OpenError::Incomplete(dir.to_owned()));
        }
        let manifest = Manifest::parse(&text)?;
        Ok(Self { dir: dir.to_owned(), manifest, manifest_text: text, base: None })
    }

    /// Adds the package that this difference was made from.
    ///
    /// # Errors
    /// It is another one, or this package needs none.
    pub fn with_base(mut self, base: Self) -> Result<Self, OpenError> {
        let Some(needed) = &self.manifest.base else { return Err(OpenError::NeedsNoBase) };
        let dir = || base.dir.clone();
        if needed.id != base.manifest.id {
            let (found, needed) = (base.manifest.id.clone(), needed.id.clone());
            return Err(OpenError::OtherBase { dir: dir(), found, needed });
        }
        if needed.manifest_sha256 != base.manifest_sha256() {
            return Err(OpenError::ChangedBase { dir: dir(), id: needed.id.clone() });
        }
        let files = base.manifest.files.iter();
        let by_content = files.map(|(path, it)| ((it.sha256, it.size), path.clone())).collect();
        self.base = Some(Box::new(BasePackage { package: base, by_content }));
        Ok(self)
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns what is in the package.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the bytes of the manifest as they were read: what a signature is over.
    pub fn manifest_text(&self) -> &[u8] {
        &self.manifest_text
    }

    /// Returns the SHA-256 of the manifest.
    pub fn manifest_sha256(&self) -> Sha256Sum {
        Sha256Sum(Sha256::digest(&self.manifest_text).into())
    }

    /// Returns the base, if [`Self::with_base`] added it.
    pub fn base(&self) -> Option<&Self> {
        self.base.as_ref().map(|it| &it.package)
    }

    /// Returns the content of a file, to be read once from the beginning. It is not verified: that is for the reader to do.
    ///
    /// # Errors
    /// The manifest has no such file, its content is in a base that was not added, or the file can't be read or has
    /// another size.
    pub fn content(&self, path: &PackagePath) -> io::Result<Content<'_>> {
        let entry = self.manifest.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        if entry.in_base {
            let missing =
                || io::Error::new(io::ErrorKind::NotFound, format!("`{path}` is in the base package"));
            let base = self.base.as_deref().ok_or_else(missing)?;
            let other = base.by_content.get(&(entry.sha256, entry.size)).ok_or_else(missing)?;
            return base.package.content(other);
        }
        match entry.at {
            None => Content::of_file(&path.below(&self.dir), entry),
            Some(at) => Ok(Content {
                source: Source::Parts { dir: &self.dir, size: self.part_size(), at, open: None },
                left: entry.size,
            }),
        }
    }

    /// Size of the parts. A manifest without parts has no file with an offset, and is refused otherwise.
    pub(crate) fn part_size(&self) -> u64 {
        self.manifest.parts.as_ref().map_or(u64::MAX, |it| it.size)
    }
}

/// The content of a file in a package.
#[derive(Debug)]
pub struct Content<'a> {
    source: Source<'a>,
    /// Bytes that are still to be read.
    left: u64,
}

#[derive(Debug)]
enum Source<'a> {
    File(File),
    Parts {
        dir: &'a Path,
        size: u64,
        /// Offset of the next byte in all parts.
        at: u64,
        open: Option<File>,
    },
}

impl Content<'_> {
    fn of_file(path: &Path, entry: &FileEntry) -> io::Result<Self> {
        let file = open_file(path)?;
        let found = file.metadata()?.size();
        if found != entry.size {
            let text = format!("it has {found} bytes instead of {}", entry.size);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Self { source: Source::File(file), left: entry.size })
    }
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if wanted == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..wanted];
        let read = match &mut self.source {
            Source::File(file) => file.read(buffer)?,
            Source::Parts { dir, size, at, open } => read_part(dir, *size, at, open, buffer)?,
        };
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is shorter than the manifest says"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Reads from the part that has the offset `at`, and not beyond its end.
fn read_part(
    dir: &Path,
    size: u64,
    at: &mut u64,
    open: &mut Option<File>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let inside = *at % size;
    if inside == 0 {
        *open = None;
    }
    let file = if let Some(file) = open {
        file
    } else {
        let mut file = open_file(&dir.join(Manifest::part_name(*at / size)))?;
        file.seek(SeekFrom::Start(inside))?;
        open.insert(file)
    };
    let rest = usize::try_from(size - inside).map_or(buffer.len(), |it| it.min(buffer.len()));
    let read = file.read(&mut buffer[..rest])?;
    *at += read as u64;
    Ok(read)
}

/// Opens a file for reading: a regular one, and no link. A pipe does not block.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is no regular file.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}
