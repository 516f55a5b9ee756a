//! Writes a package.
//!
//! Everything new goes into the folder [`STAGING`] first, so that a package which is there already stays whole until the new
//! one is complete. Then the new manifest is stored in that folder; that is the point of no return, after which the files are
//! put in place, by the next run if this one dies. Files of the package as it was that have not changed stay where they are.
//! An export that was interrupted goes on where its [journal](journal) ends.

mod copy;
mod earlier;
pub(crate) mod journal;
mod output;
mod pieces;
mod place;
mod put;
mod sums;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use earlier::Earlier;
use journal::{Journal, Key, Line, Partial};
use output::{FolderOutput, PartsOutput};
use secrecy::SecretString;
pub use sums::{Ident, Sums};

use crate::{
    checksums::Sha256Sum,
    contents::{Contents, Image},
    manifest::{Base, FORMAT_VERSION, FileEntry, Manifest, Parts, Pieces, STAGING},
    package::Package,
    path::{LinkTarget, PackagePath},
    stop::is_stop,
    verify::Progress,
};

/// Bytes that are read at a time: few enough that other threads get the CPU soon, also from a kernel that does not interrupt its own
/// copying.
const PIECE: usize = 1 << 18;

/// What a new package is to be.
#[derive(Debug, Default)]
pub struct WriterOptions {
    /// Size of parts, in bytes; `None` for a file of its own for each content.
    pub part_size: Option<u64>,
    /// The package to make the difference to.
    pub base: Option<BaseManifest>,
    /// The present time, in milliseconds since 1970, UTC.
    pub now_ms: i64,
    /// A secret of the gateway. An export goes on with what was written to the disk under the same secret only: a
    /// program that can write to the disk must not choose what is signed.
    pub journal_secret: Option<SecretString>,
}

/// The manifest of a package that is the base of a difference.
#[derive(Debug)]
pub struct BaseManifest {
    pub manifest: Manifest,
    /// SHA-256 of the manifest's text.
    pub sha256: Sha256Sum,
}

/// Who makes a package, and when.
#[derive(Debug, Clone)]
pub struct Origin {
    /// A UUID.
    pub id: String,
    /// RFC 3339, UTC.
    pub created_at: String,
    pub gateway_version: String,
}

/// Makes the text of a signature from that of the manifest.
pub type Signer<'a> = dyn Fn(&mut dyn Read) -> io::Result<String> + 'a;

/// Why a package can't be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("it was stopped")]
    Stopped,
    #[error("{} has something else in it, such as `{}`: name an empty folder, or that of a package", dir.display(), found.display())]
    Occupied { dir: PathBuf, found: PathBuf },
    #[error("another export into {} is under way", .0.display())]
    Busy(PathBuf),
    #[error("parts of {0} bytes are too small: at least {min} are needed", min = crate::manifest::SMALLEST_PART)]
    PartSize(u64),
    #[error("`{0}` was changed while it was read: run the export again when nobody writes to it")]
    Changed(PackagePath),
    #[error("`{0}` is in the package twice")]
    Twice(PackagePath),
    #[error("{what}: {error}")]
    Io { what: String, error: io::Error },
    #[error(transparent)]
    Manifest(#[from] crate::manifest::ManifestError),
}

impl WriteError {
    /// Whether there is no space left.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { error, .. }
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// Says what was done when an error came.
fn at(what: impl fmt::Display) -> impl FnOnce(io::Error) -> WriteError {
    let what = format!("{what}");
    move |error| if is_stop(&error) { WriteError::Stopped } else { WriteError::Io { what, error } }
}

/// A package in the making. Its methods block, and return [`WriteError::Stopped`] soon after [`Progress::stop`] was set.
#[derive(Debug)]
pub struct PackageWriter {
    dir: PathBuf,
    /// Whether the folder was made for this package.
    is_new: bool,
    /// Held until the writer is dropped.
    _lock: File,
    /// Files that are complete on the disk, from earlier runs.
    known: BTreeMap<PackagePath, FileEntry>,
    /// Images whose blobs are all among `known` or in the base.
    known_images: Vec<Image>,
    partial: Option<Partial>,
    base: Option<BaseFiles>,
    files: BTreeMap<PackagePath, FileEntry>,
    links: BTreeMap<PackagePath, LinkTarget>,
    pieces: BTreeMap<PackagePath, Pieces>,
    output: Output,
    journal: Journal,
    progress: Arc<Progress>,
    now_ms: i64,
}

#[derive(Debug)]
struct BaseFiles {
    base: Base,
    contents: HashSet<(Sha256Sum, u64)>,
    sizes: HashSet<u64>,
    pieces: HashSet<(Sha256Sum, u64)>,
}

impl BaseFiles {
    fn of(BaseManifest { manifest, sha256 }: BaseManifest) -> Self {
        let pieces = manifest.pieces.values().flat_map(|it| &it.list);
        Self {
            contents: manifest.files.values().map(|file| (file.sha256, file.size)).collect(),
            sizes: manifest.files.values().map(|file| file.size).collect(),
            pieces: pieces.map(|it| (it.sha256, it.size)).collect(),
            base: Base { id: manifest.id, manifest_sha256: sha256 },
        }
    }
}

#[derive(Debug)]
enum Output {
    Folder(FolderOutput),
    Parts(Box<PartsOutput>),
}

impl Output {
    /// The file that is being written.
    fn open(&self) -> Option<&File> {
        match self {
            Self::Folder(output) => output.open(),
            Self::Parts(output) => output.open(),
        }
    }
}

impl PackageWriter {
    /// Begins a package in the folder `dir`, which is made if it is not there, or goes on with one.
    ///
    /// # Errors
    /// There is something else in the folder, or it can't be written to.
    pub fn open(dir: &Path, options: WriterOptions, progress: Arc<Progress>) -> Result<Self, WriteError> {
        if let Some(small) = options.part_size.filter(|it| *it < crate::manifest::SMALLEST_PART) {
            return Err(WriteError::PartSize(small));
        }
        let is_new = !dir.exists();
        output::folders(dir).map_err(at(dir.display()))?;
        let lock = place::lock(dir)?;
        place::finish_pending(dir)?;
        let old = place::package_of(dir)?;
        let staging = dir.join(STAGING);
        let journal_path = staging.join("journal");
        let failed = || at(journal_path.display());
        let key = Key::new(options.journal_secret.as_ref()).map_err(failed())?;
        let (mut lines, mut length) = journal::read(&journal_path, &key).map_err(failed())?;
        let begin = Line::Begin { part_size: options.part_size };
        if lines.first() != Some(&begin) {
            // What an export of another kind left is of no use.
            place::remove(&staging)?;
            lines.clear();
            length = 0;
        }
        output::folders(&staging).map_err(at(staging.display()))?;
        let mut journal = Journal::open(&journal_path, length, key).map_err(failed())?;
        if lines.is_empty() {
            journal.add(begin);
        }
        let earlier = Earlier::of(dir, old, lines, options.part_size);
        let files = staging.join("files");
        let mut output = match options.part_size {
            None => Output::Folder(FolderOutput::new(files)),
            Some(size) => {
                Output::Parts(Box::new(PartsOutput::new(dir.to_owned(), files, size, Arc::clone(&progress))))
            }
        };
        if let Output::Parts(output) = &mut output {
            output.sums = earlier.part_sums;
        }
        Ok(Self {
            dir: dir.to_owned(),
            is_new,
            _lock: lock,
            known: earlier.files,
            known_images: earlier.images,
            partial: earlier.partial,
            base: options.base.map(BaseFiles::of),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            pieces: BTreeMap::new(),
            output,
            journal,
            progress,
            now_ms: options.now_ms,
        })
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// There is a file or a link of that name.
    pub fn link(&mut self, path: &PackagePath, target: LinkTarget) -> Result<(), WriteError> {
        match self.links.insert(path.clone(), target) {
            Some(_) => Err(WriteError::Twice(path.clone())),
            None if self.files.contains_key(path) => Err(WriteError::Twice(path.clone())),
            None => Ok(()),
        }
    }

    /// Returns the manifest as it would be if the package ended here, without the checksums of parts. It takes the files and
    /// links, of which there may be too many to hold them twice.
    fn take_manifest(&mut self, origin: &Origin, contents: &Contents) -> Manifest {
        Manifest {
            format_version: FORMAT_VERSION,
            id: origin.id.clone(),
            created_at: origin.created_at.clone(),
            gateway_version: origin.gateway_version.clone(),
            base: self.base.as_ref().map(|it| it.base.clone()),
            parts: None,
            contents: contents.clone(),
            files: std::mem::take(&mut self.files),
            links: std::mem::take(&mut self.links),
            pieces: std::mem::take(&mut self.pieces),
        }
    }

    /// Writes a file that `fill` makes of the manifest as it is so far.
    ///
    /// # Errors
    /// Those of writing, and those of `fill`.
    pub fn put_about(
        &mut self,
        path: &PackagePath,
        (origin, contents): (&Origin, &Contents),
        fill: impl FnOnce(&Manifest, &mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<FileEntry, WriteError> {
        if self.files.contains_key(path) || self.links.contains_key(path) {
            return Err(WriteError::Twice(path.clone()));
        }
        let manifest = self.take_manifest(origin, contents);
        let put = self.put_with(path, |to| fill(&manifest, to).map_err(at(path)), |error| error);
        let own = std::mem::replace(&mut self.files, manifest.files);
        self.files.extend(own);
        (self.links, self.pieces) = (manifest.links, manifest.pieces);
        put.map(|(entry, ())| entry)
    }

    /// Completes the package. `sign` makes the text of the signature from that of the manifest, if there is to be one.
    pub fn finish(
        mut self,
        origin: &Origin,
        contents: &Contents,
        sign: Option<&Signer<'_>>,
    ) -> Result<Package, WriteError> {
        let mut parts = None;
        if let Output::Parts(output) = &mut self.output {
            output.finish().map_err(at("the last part"))?;
            let (size, sha256) = (output.size(), output.sums.clone());
            parts = Some(Parts { size, sha256, modified_at: self.now_ms });
        }
        // What there was before is of no use any more.
        self.known = BTreeMap::new();
        let manifest = Manifest { parts, ..self.take_manifest(origin, contents) };
        self.journal.flush().map_err(at("the disk"))?;
        let sum = place::commit(&self.dir, &manifest, sign)?;
        Ok(Package::of(&self.dir, manifest, sum))
    }

    /// Removes everything that this export made. A package that was there before stays as it was.
    pub fn discard(mut self) -> Result<(), WriteError> {
        let (dir, is_new) = (self.dir.clone(), self.is_new);
        // Nobody will go on with it, so the disk need not have stored it.
        self.journal.forget();
        drop(self);
        place::remove(&dir.join(STAGING))?;
        if is_new {
            // Not empty if somebody put something into it meanwhile.
            let _ = fs::remove_dir(&dir);
        }
        Ok(())
    }

    fn add_from_base(
        &mut self,
        path: &PackagePath,
        sha256: Sha256Sum,
        size: u64,
        modified_at: i64,
    ) -> Result<FileEntry, WriteError> {
        let entry = FileEntry { size, sha256, modified_at: Some(modified_at), at: None, in_base: true };
        self.add(path, entry)?;
        Ok(entry)
    }

    fn add(&mut self, path: &PackagePath, entry: FileEntry) -> Result<(), WriteError> {
        if self.links.contains_key(path) || self.files.insert(path.clone(), entry).is_some() {
            return Err(WriteError::Twice(path.clone()));
        }
        Ok(())
    }

    fn begin(&mut self, name: &str, done: u64) -> Result<(), WriteError> {
        self.journal.begun();
        match &mut self.output {
            Output::Folder(output) => output.begin(name, done).map_err(at(name)),
            Output::Parts(_) => Ok(()),
        }
    }

    /// Returns where the next file begins in the parts.
    fn offset(&self) -> Option<u64> {
        match &self.output {
            Output::Folder(_) => None,
            Output::Parts(output) => Some(output.offset),
        }
    }

    /// Reads a piece, unless the work is to stop.
    fn read(&self, from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.progress.go_on()?;
            match from.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Before this export writes into the parts for the first time: makes sure that none will ever take what earlier ones
    /// wrote there, should this one die.
    fn begin_to_write(&mut self) -> io::Result<()> {
        let Output::Parts(output) = &self.output else { return Ok(()) };
        let (from, size) = (output.offset, output.size());
        if output.has_written {
            return Ok(());
        }
        let is_behind = |it: &FileEntry| it.at.is_some_and(|at| at.saturating_add(it.size) > from);
        if output.sums.len() as u64 > from / size || self.known.values().any(is_behind) {
            self.journal.add(Line::Rewritten { from });
            self.journal.flush()?;
        }
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.begin_to_write()?;
        self.progress.bytes.fetch_add(piece.len() as u64, Relaxed);
        self.journal.wrote(piece.len() as u64);
        match &mut self.output {
            Output::Folder(output) => output.write(piece),
            Output::Parts(output) => output.write(piece),
        }
    }

    fn note_parts(&mut self) {
        if let Output::Parts(output) = &mut self.output {
            for (index, sha256) in output.complete.drain(..) {
                self.journal.add(Line::Part { index, sha256 });
            }
        }
    }

    /// Forgets what was written since `start`.
    fn drop_written(&mut self, start: Option<u64>) -> Result<(), WriteError> {
        match &mut self.output {
            Output::Folder(output) => output.discard().map_err(at("a file that is not needed")),
            Output::Parts(output) => {
                output.go_back(start.unwrap_or(output.offset));
                Ok(())
            }
        }
    }

    fn finish_file(
        &mut self,
        path: &PackagePath,
        sha256: Sha256Sum,
        size: u64,
        modified_at: i64,
        start: Option<u64>,
    ) -> Result<FileEntry, WriteError> {
        if let Output::Folder(output) = &mut self.output {
            output.finish(path, modified_at).map_err(at(path))?;
        }
        let entry = FileEntry { size, sha256, modified_at: Some(modified_at), at: start, in_base: false };
        self.add(path, entry)?;
        self.note_parts();
        self.journal.add(Line::File { path: path.clone(), entry });
        if self.journal.is_due() {
            self.journal.checkpoint(None).map_err(at("the disk"))?;
        }
        Ok(entry)
    }
}
