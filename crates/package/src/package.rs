//! A package in a folder: its manifest, and the contents of its files wherever they lie.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

use crate::{
    checksums::Sha256Sum,
    manifest::{Base, FileEntry, LARGEST, MANIFEST, Manifest, ManifestError, Piece, Pieces, STAGING},
    path::PackagePath,
};

/// Most packages that a difference may need, one after another.
const MOST_BASES: usize = 100;
/// Most folders beside a package that are looked into for its base.
const MOST_BESIDE: usize = 1000;

/// A package whose manifest was read. Nothing else of it was read yet.
#[derive(Debug)]
pub struct Package {
    dir: PathBuf,
    manifest: Manifest,
    manifest_sha256: Sha256Sum,
    base: Option<Box<BasePackage>>,
}

/// The package that a difference needs.
#[derive(Debug)]
struct BasePackage {
    package: Package,
    /// Its files by content: a file may have another name in the difference.
    by_content: HashMap<(Sha256Sum, u64), PackagePath>,
    /// Where the pieces lie that are in the base itself: the file, and the offset in it.
    pieces: HashMap<(Sha256Sum, u64), (PackagePath, u64)>,
}

impl BasePackage {
    fn has_piece(&self, piece: &Piece) -> bool {
        self.pieces.contains_key(&(piece.sha256, piece.size))
            || self.package.base.as_deref().is_some_and(|it| it.has_piece(piece))
    }
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
    /// The base is a difference itself.
    #[error(
        "the package {0} is needed as well, for a base is the difference to it: put its folder beside that of the base"
    )]
    MissingBase(String),
    #[error("the package needs more than {MOST_BASES} others")]
    TooManyBases,
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
        let read = Manifest::read(&file);
        // An export whose manifest is there already is putting its files in place.
        if dir.join(STAGING).join(MANIFEST).try_exists().map_err(failed)? {
            return Err(OpenError::Incomplete(dir.to_owned()));
        }
        let (manifest, sha256) = read.map_err(|error| match error {
            ManifestError::Io(error) => failed(error),
            error => error.into(),
        })?;
        Ok(Self::of(dir, manifest, sha256))
    }

    /// Returns the package in a folder whose manifest is known.
    pub(crate) fn of(dir: &Path, manifest: Manifest, manifest_sha256: Sha256Sum) -> Self {
        Self { dir: dir.to_owned(), manifest, manifest_sha256, base: None }
    }

    /// Adds the package that this difference was made from.
    ///
    /// # Errors
    /// It is another one, or this package needs none.
    pub fn with_base(mut self, base: Self) -> Result<Self, OpenError> {
        self.check_base(&base)?;
        let files = base.manifest.files.iter();
        let by_content = files.map(|(path, it)| ((it.sha256, it.size), path.clone())).collect();
        let pieces = own_pieces(&base.manifest);
        self.base = Some(Box::new(BasePackage { package: base, by_content, pieces }));
        Ok(self)
    }

    /// Adds the package in the folder `dir`, which this difference was made from. If that is a difference itself, the packages that
    /// it needs are looked for in the folders beside it, and beside this one.
    ///
    /// # Errors
    /// Those of [`Self::open`] and [`Self::with_base`]; a package that the base needs is not there.
    pub fn with_base_at(self, dir: &Path) -> Result<Self, OpenError> {
        let base = Self::open(dir)?;
        self.check_base(&base)?;
        let mut needed = base.manifest.base.clone();
        let mut chain = vec![base];
        while let Some(further) = needed.take() {
            if chain.len() == MOST_BASES {
                return Err(OpenError::TooManyBases);
            }
            let found =
                chain.iter().rev().chain([&self]).map(Self::folder).find_map(|it| package_in(it, &further));
            let found = found.ok_or_else(|| OpenError::MissingBase(further.id.clone()))?;
            needed.clone_from(&found.manifest.base);
            chain.push(found);
        }
        let whole = chain.into_iter().rev().try_fold(None, |below: Option<Self>, it| match below {
            Some(below) => it.with_base(below).map(Some),
            None => Ok(Some(it)),
        });
        match whole? {
            Some(base) => self.with_base(base),
            None => Ok(self),
        }
    }

    /// Returns the folder that the package's folder lies in.
    fn folder(&self) -> &Path {
        self.dir.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Checks that this is the difference to a package.
    fn check_base(&self, base: &Self) -> Result<(), OpenError> {
        let Some(needed) = &self.manifest.base else { return Err(OpenError::NeedsNoBase) };
        let dir = || base.dir.clone();
        if needed.id != base.manifest.id {
            let (found, needed) = (base.manifest.id.clone(), needed.id.clone());
            return Err(OpenError::OtherBase { dir: dir(), found, needed });
        }
        if needed.manifest_sha256 != base.manifest_sha256() {
            return Err(OpenError::ChangedBase { dir: dir(), id: needed.id.clone() });
        }
        Ok(())
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns what is in the package.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns what is in the package, and the SHA-256 of its manifest.
    pub fn into_manifest(self) -> (Manifest, Sha256Sum) {
        (self.manifest, self.manifest_sha256)
    }

    /// Returns the bytes of the manifest: what a signature is over. They are read again, and must be what was read first.
    ///
    /// # Errors
    /// The file can't be read, or it was changed meanwhile.
    pub fn manifest_text(&self) -> io::Result<Vec<u8>> {
        let file = open_file(&self.dir.join(MANIFEST))?;
        let size = usize::try_from(file.metadata()?.size().min(LARGEST)).unwrap_or_default();
        let mut text = Vec::with_capacity(size);
        file.take(LARGEST + 1).read_to_end(&mut text)?;
        if Sha256Sum::of(&text) == self.manifest_sha256 {
            return Ok(text);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the manifest was changed while it was read"))
    }

    /// Returns the SHA-256 of the manifest.
    pub fn manifest_sha256(&self) -> Sha256Sum {
        self.manifest_sha256
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
        if !entry.in_base {
            return self.range(path, 0, entry.size);
        }
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("`{path}` is in the base package"));
        let base = self.base.as_deref().ok_or_else(missing)?;
        match self.manifest.pieces.get(path) {
            Some(Pieces { list, rest: Some(rest) }) => {
                let source = Source::Pieces { package: self, list, rest, at: 0, open: None };
                Ok(Content { source, left: entry.size })
            }
            _ => base.package.content(base.by_content.get(&(entry.sha256, entry.size)).ok_or_else(missing)?),
        }
    }

    /// Returns whether the content of a file is in this package, or in a base that was added, as their manifests say.
    pub fn has(&self, path: &PackagePath) -> bool {
        let Some(entry) = self.manifest.files.get(path) else { return false };
        if !entry.in_base {
            return true;
        }
        let Some(base) = self.base.as_deref() else { return false };
        match self.manifest.pieces.get(path) {
            Some(Pieces { list, rest: Some(_) }) => list.iter().all(|it| !it.in_base || base.has_piece(it)),
            _ => base.by_content.get(&(entry.sha256, entry.size)).is_some_and(|it| base.package.has(it)),
        }
    }

    /// Returns some bytes of a file that is in this package.
    fn range(&self, path: &PackagePath, from: u64, size: u64) -> io::Result<Content<'_>> {
        let entry = self.manifest.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let source = match entry.at {
            None => Source::File(open_at(&path.below(&self.dir), entry, from)?),
            Some(at) => Source::Parts {
                dir: &self.dir,
                size: self.part_size(),
                at: at.saturating_add(from),
                open: None,
            },
        };
        Ok(Content { source, left: size })
    }

    /// Returns a piece that is in this package or in its base.
    fn piece(&self, piece: &Piece) -> io::Result<Content<'_>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "a piece of it is in the base package");
        let base = self.base.as_deref().ok_or_else(missing)?;
        match base.pieces.get(&(piece.sha256, piece.size)) {
            Some((path, from)) => base.package.range(path, *from, piece.size),
            // The base is a difference itself.
            None => base.package.piece(piece),
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
    Pieces {
        package: &'a Package,
        /// Pieces that are still to be opened.
        list: &'a [Piece],
        rest: &'a PackagePath,
        /// Offset in `rest` of the next piece that is not in the base.
        at: u64,
        open: Option<Box<Content<'a>>>,
    },
}

/// Opens a file of a package at an offset, if it has its size.
fn open_at(path: &Path, entry: &FileEntry, from: u64) -> io::Result<File> {
    let mut file = open_file(path)?;
    let found = file.metadata()?.size();
    if found != entry.size {
        let text = format!("it has {found} bytes instead of {}", entry.size);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    file.seek(SeekFrom::Start(from))?;
    Ok(file)
}

/// Looks for a package in the folders of a folder. Links are not followed: they may lead anywhere.
fn package_in(folder: &Path, needed: &Base) -> Option<Package> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let folders = entries.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).take(MOST_BESIDE);
    folders
        .filter_map(|it| Package::open(&it.path()).ok())
        .find(|it| it.manifest.id == needed.id && it.manifest_sha256 == needed.manifest_sha256)
}

/// Returns where the pieces lie that are in the package of this manifest itself.
fn own_pieces(manifest: &Manifest) -> HashMap<(Sha256Sum, u64), (PackagePath, u64)> {
    let mut found = HashMap::new();
    for (path, pieces) in &manifest.pieces {
        let (file, mut at) = (pieces.rest.as_ref().unwrap_or(path), 0_u64);
        for piece in pieces.list.iter().filter(|it| !it.in_base) {
            found.insert((piece.sha256, piece.size), (file.clone(), at));
            at = at.saturating_add(piece.size);
        }
    }
    found
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
            Source::Pieces { package, list, rest, at, open } => {
                read_pieces(package, list, rest, at, open, buffer)?
            }
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

/// Reads from the piece that is open, or the next one.
fn read_pieces<'a>(
    package: &'a Package,
    list: &mut &'a [Piece],
    rest: &PackagePath,
    at: &mut u64,
    open: &mut Option<Box<Content<'a>>>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        if let Some(content) = open {
            let read = content.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
        }
        let Some((piece, later)) = list.split_first() else { return Ok(0) };
        *open = Some(Box::new(if piece.in_base {
            package.piece(piece)?
        } else {
            let from = *at;
            *at = at.saturating_add(piece.size);
            package.range(rest, from, piece.size)?
        }));
        *list = later;
    }
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
