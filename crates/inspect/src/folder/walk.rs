//! A bounded walk below one folder.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::base::{Base, Entry, EntryKind, FileId};

/// Most levels of folders. A hub cache's snapshots (`models--a--b/snapshots/<commit>/Q4_K_M`) are within it.
pub const MAX_DEPTH: usize = 4;
/// Most names that one walk looks at.
pub const MAX_ENTRIES: usize = 10_000;

/// A file that was found.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    /// Path relative to the start of the walk, with `/`.
    pub(crate) rel: String,
    /// The real path, with links resolved.
    pub(crate) path: PathBuf,
    /// Size in bytes.
    pub(crate) len: u64,
}

impl FoundFile {
    pub(crate) fn name(&self) -> &str {
        self.rel.rsplit_once('/').map_or(&self.rel, |it| it.1)
    }

    /// Returns the folder of the file, relative to the start of the walk; empty for the start itself.
    pub(crate) fn folder(&self) -> &str {
        self.rel.rsplit_once('/').map_or("", |it| it.0)
    }

    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.name().rsplit_once('.').is_some_and(|it| it.1.eq_ignore_ascii_case(extension))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The files, sorted by depth, then by name.
    pub(crate) files: Vec<FoundFile>,
    /// Size of all files; a file with two names counts once.
    pub(crate) size_bytes: u64,
    /// Whether there was more, at a deeper level or beyond [`MAX_ENTRIES`].
    pub(crate) cut: bool,
    /// Links that lead out of the base directory. They were not followed.
    pub(crate) outside: Vec<String>,
    /// Links to what is not there.
    pub(crate) broken: Vec<String>,
    /// Folders that could not be read.
    pub(crate) unreadable: Vec<String>,
    pub(crate) unreadable_names: usize,
}

/// Whether a walk enters a folder of this name. Hidden folders hold data of other tools.
fn enters(name: &str) -> bool {
    !name.starts_with('.')
}

/// A folder that the walk has found and not yet listed.
struct Pending {
    path: PathBuf,
    /// Path relative to the start of the walk; empty for the start itself.
    rel: String,
    depth: usize,
}

impl Pending {
    /// Returns the path of a name in this folder, relative to the start of the walk.
    fn join(&self, name: &str) -> String {
        if self.rel.is_empty() { name.to_owned() } else { format!("{}/{name}", self.rel) }
    }
}

/// A walk that is under way.
#[derive(Default)]
struct Walker {
    walk: Walk,
    queue: VecDeque<Pending>,
    seen_folders: BTreeSet<FileId>,
    seen_files: BTreeSet<FileId>,
}

impl Walker {
    fn add(&mut self, entry: Entry, folder: &Pending) {
        let rel = folder.join(&entry.name);
        match entry.kind {
            EntryKind::File { len } => {
                if self.seen_files.insert(entry.id) {
                    self.walk.size_bytes = self.walk.size_bytes.saturating_add(len);
                }
                self.walk.files.push(FoundFile { rel, path: entry.path, len });
            }
            EntryKind::Folder if enters(&entry.name) && self.seen_folders.insert(entry.id) => {
                if folder.depth < MAX_DEPTH {
                    let depth = folder.depth.saturating_add(1);
                    self.queue.push_back(Pending { path: entry.path, rel, depth });
                } else {
                    self.walk.cut = true;
                }
            }
            EntryKind::Outside => self.walk.outside.push(rel),
            EntryKind::Broken => self.walk.broken.push(rel),
            EntryKind::Folder | EntryKind::Other => {}
        }
    }
}

fn id(folder: &Path) -> Option<FileId> {
    fs::symlink_metadata(folder).ok().map(|it| (it.dev(), it.ino()))
}

/// Lists everything below `start`, which [`Base::resolve`] gave.
pub(crate) fn walk(base: &Base, start: &Path) -> Walk {
    let mut walker = Walker { seen_folders: id(start).into_iter().collect(), ..Walker::default() };
    walker.queue.push_back(Pending { path: start.to_owned(), rel: String::new(), depth: 0 });
    let mut left = MAX_ENTRIES;
    while let Some(folder) = walker.queue.pop_front() {
        let Ok(listing) = base.list(&folder.path, left) else {
            walker.walk.unreadable.push(if folder.rel.is_empty() { ".".to_owned() } else { folder.rel });
            continue;
        };
        left = left.saturating_sub(listing.entries.len());
        walker.walk.cut |= listing.cut;
        walker.walk.unreadable_names = walker.walk.unreadable_names.saturating_add(listing.unreadable_names);
        for entry in listing.entries {
            walker.add(entry, &folder);
        }
    }
    walker.walk
}
