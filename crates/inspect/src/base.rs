//! The models directory. No path may lead out of it.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{Cache, cache::Stamp};

/// Longest relative path, in bytes (Linux `PATH_MAX`).
const MAX_PATH: usize = 4096;

/// Most bytes that one look may read of all files. A folder with two hundred models has some 1.4 GiB of headers.
const MAX_READ: u64 = 2 << 30;
/// Longest time for one look. Callers wait for 20 s, and wait for each other.
const MAX_TIME: Duration = Duration::from_secs(8);

/// Error code for too many symbolic links (Linux `errno.h`); its `ErrorKind` is not stable.
const ELOOP: i32 = 40;

/// Why nothing was inspected. The texts name paths as the caller gave them, and never show where the base directory is.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The path is absolute, has `..`, or is a symbolic link that leads out.
    #[error("`{path}` {why}")]
    NotAllowed { path: String, why: &'static str },
    #[error("there is no `{path}` in the models directory")]
    NotFound { path: String },
    #[error("`{path}` is a link to what is not there")]
    BrokenLink { path: String },
    /// The path is a file that is not GGUF, or neither file nor folder.
    #[error("`{path}` is neither a folder nor a `.gguf` file")]
    NotAFolder { path: String },
    #[error("the models directory can't be read")]
    Base(#[source] io::Error),
    #[error("`{path}` can't be read")]
    Io {
        path: String,
        #[source]
        source: io::Error,
    },
}

/// An existing directory, with every symbolic link in its own path resolved. A new value is opened for each look at it,
/// because it counts what that look reads.
#[derive(Debug, Clone)]
pub struct Base {
    root: PathBuf,
    cache: Option<Arc<Cache>>,
    spent: Arc<Spent>,
}

/// What one look has used up so far.
#[derive(Debug)]
struct Spent {
    began: Instant,
    /// Bytes that were read.
    read: AtomicU64,
}

/// A file within the base directory, open for reading.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: Counted,
    /// Size in bytes.
    pub(crate) len: u64,
    /// Shows whether the file has changed since an earlier look.
    pub(crate) stamp: Stamp,
}

/// A file whose bytes are counted as they are read.
#[derive(Debug)]
pub(crate) struct Counted {
    file: File,
    spent: Arc<Spent>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.spent.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// A file's or folder's identity, for telling two names of one thing.
pub(crate) type FileId = (u64, u64);

/// What a name in a folder refers to, with links followed.
pub(crate) enum EntryKind {
    File {
        len: u64,
    },
    Folder,
    /// A link that leads out of the base directory.
    Outside,
    /// A link to what is not there.
    Broken,
    /// A socket, a link to itself, something unreadable.
    Other,
}

/// One name in a folder.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The real path, with links resolved.
    pub(crate) path: PathBuf,
    pub(crate) kind: EntryKind,
    pub(crate) id: FileId,
}

/// A folder's names, sorted.
pub(crate) struct Listing {
    pub(crate) entries: Vec<Entry>,
    /// Whether there were more names than the caller wanted.
    pub(crate) cut: bool,
    /// Number of names that are not UTF-8, which no request can spell.
    pub(crate) unreadable_names: usize,
}

impl Base {
    /// Opens a base directory for one look.
    ///
    /// # Errors
    /// It is absent or can't be read.
    pub fn open(path: &Path) -> Result<Self, InspectError> {
        let root = path.canonicalize().map_err(InspectError::Base)?;
        let spent = Arc::new(Spent { began: Instant::now(), read: AtomicU64::new(0) });
        Ok(Self { root, cache: None, spent })
    }

    /// Returns the same base, which takes headers from `cache` if they were read before.
    #[must_use]
    pub fn with_cache(self, cache: &Arc<Cache>) -> Self {
        Self { cache: Some(Arc::clone(cache)), ..self }
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_deref()
    }

    /// Whether this look has used up its bytes or its time. A caller that goes through many files must then stop and
    /// report that.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.read.load(Ordering::Relaxed) > MAX_READ || self.spent.began.elapsed() > MAX_TIME
    }

    /// Returns the file or folder at `rel`, with links resolved. `""` and `.` are the base directory itself.
    pub fn resolve(&self, rel: &str) -> Result<PathBuf, InspectError> {
        let refused = |why| InspectError::NotAllowed { path: shown(rel), why };
        let not_allowed = || refused("is not a path below the models directory");
        let ordinary =
            Path::new(rel).components().all(|it| matches!(it, Component::Normal(_) | Component::CurDir));
        if !ordinary || rel.len() > MAX_PATH || rel.contains('\0') {
            return Err(not_allowed());
        }
        let path = self.root.join(rel);
        let path = path.canonicalize().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if self.has_link(&path) => InspectError::BrokenLink { path: shown(rel) },
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                InspectError::NotFound { path: shown(rel) }
            }
            _ if source.raw_os_error() == Some(ELOOP) => not_allowed(),
            _ => InspectError::Io { path: shown(rel), source },
        })?;
        if path.starts_with(&self.root) {
            return Ok(path);
        }
        Err(refused(
            "leads out of the models directory by a link; put the files themselves there, or mount their folder there",
        ))
    }

    /// Whether a folder of the base has a link at `path`.
    fn has_link(&self, path: &Path) -> bool {
        let folder = path.parent().and_then(|it| it.canonicalize().ok());
        folder.is_some_and(|it| it.starts_with(&self.root)) && path.is_symlink()
    }

    /// Returns `path`, which lies below the base, as a request spells it; `.` for the base itself.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let rel = path.strip_prefix(&self.root).unwrap_or(Path::new(""));
        if rel.as_os_str().is_empty() { ".".to_owned() } else { rel.to_string_lossy().into_owned() }
    }

    /// Returns up to `limit` names in `folder`, a path that [`Base::resolve`] or [`Base::list`] gave.
    pub(crate) fn list(&self, folder: &Path, limit: usize) -> io::Result<Listing> {
        let mut listing = Listing { entries: Vec::new(), cut: false, unreadable_names: 0 };
        for entry in fs::read_dir(folder)? {
            if listing.entries.len() >= limit {
                listing.cut = true;
                break;
            }
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                listing.unreadable_names = listing.unreadable_names.saturating_add(1);
                continue;
            };
            // What a Mac writes beside each file on a disk that is not its own (AppleDouble) is no file of a model.
            if name.starts_with("._") {
                continue;
            }
            listing.entries.push(self.entry(name, &entry.path(), entry.file_type()?.is_symlink()));
        }
        listing.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    fn entry(&self, name: String, path: &Path, link: bool) -> Entry {
        let other = |kind| Entry { name: name.clone(), path: path.to_owned(), kind, id: (0, 0) };
        let target = if link {
            match path.canonicalize() {
                Ok(target) if target.starts_with(&self.root) => target,
                Ok(_) => return other(EntryKind::Outside),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return other(EntryKind::Broken),
                Err(_) => return other(EntryKind::Other),
            }
        } else {
            path.to_owned()
        };
        let Ok(meta) = fs::symlink_metadata(&target) else { return other(EntryKind::Other) };
        let kind = match meta.file_type() {
            it if it.is_file() => EntryKind::File { len: meta.len() },
            it if it.is_dir() => EntryKind::Folder,
            _ => EntryKind::Other,
        };
        Entry { kind, id: (meta.dev(), meta.ino()), name, path: target }
    }

    /// Opens a regular file at a path that [`Base::list`] or [`Base::resolve`] gave.
    ///
    /// The path was checked some time ago, so the opened file is checked again through its descriptor. A link that was
    /// put there in the meantime therefore leads nowhere.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<Opened> {
        // This check comes before opening, because opening a pipe would wait for a writer.
        if !fs::symlink_metadata(path)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = File::open(path)?;
        let meta = file.metadata()?;
        // Without /proc, the first check has to suffice.
        let inside = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_or(true, |it| it.starts_with(&self.root));
        if !meta.is_file() || !inside {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = Counted { file, spent: Arc::clone(&self.spent) };
        Ok(Opened { file, len: meta.len(), stamp: Stamp::of(&meta) })
    }

    /// Opens a file of `folder` by its name, if there is one within the base.
    pub(crate) fn file_in(&self, folder: &Path, name: &str) -> Option<Opened> {
        let path = folder.join(name).canonicalize().ok().filter(|it| it.starts_with(&self.root))?;
        self.open_file(&path).ok()
    }
}

/// Returns the start of a path, for messages.
fn shown(rel: &str) -> String {
    rel.chars().take(200).collect()
}
