//! A bounded walk below one folder.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::base::{Base, Id, Kind};

/// Most levels of folders. A hub cache's snapshots (`models--a--b/snapshots/<commit>/Q4_K_M`) are within it.
pub const MAX_DEPTH: usize = 4;
/// Most names that one walk looks at.
pub const MAX_ENTRIES: usize = 10_000;

/// A file that was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Path relative to the start of the walk, with `/`.
    pub(crate) rel: String,
    /// The real path, with links resolved.
    pub(crate) path: PathBuf,
    /// Size in bytes.
    pub(crate) len: u64,
}

impl Found {
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
    pub(crate) files: Vec<Found>,
    /// Size of all files; a file with two names counts once.
    pub(crate) size_bytes: u64,
    /// Whether there was more, at a deeper level or beyond [`MAX_ENTRIES`].
    pub(crate) cut: bool,
    /// Links that lead out of the base directory. They were not followed.
    pub(crate) outside: Vec<String>,
    /// Folders that could not be read.
    pub(crate) unreadable: Vec<String>,
    pub(crate) unreadable_names: usize,
}

/// Whether a walk enters a folder of this name. Hidden folders hold data of other tools.
fn enters(name: &str) -> bool {
    !name.starts_with('.')
}

fn id(folder: &Path) -> Option<Id> {
    fs::symlink_metadata(folder).ok().map(|it| (it.dev(), it.ino()))
}

/// Lists everything below `start`, which [`Base::resolve`] gave.
pub(crate) fn walk(base: &Base, start: &Path) -> Walk {
    let mut walk = Walk::default();
    let mut left = MAX_ENTRIES;
    let mut seen_folders: BTreeSet<Id> = id(start).into_iter().collect();
    let mut seen_files: BTreeSet<Id> = BTreeSet::new();
    let mut queue = VecDeque::from([(start.to_owned(), String::new(), 0_usize)]);
    while let Some((folder, prefix, depth)) = queue.pop_front() {
        let Ok(listing) = base.list(&folder, left) else {
            walk.unreadable.push(if prefix.is_empty() { ".".to_owned() } else { prefix });
            continue;
        };
        left = left.saturating_sub(listing.entries.len());
        walk.cut |= listing.cut;
        walk.unreadable_names = walk.unreadable_names.saturating_add(listing.unreadable_names);
        for entry in listing.entries {
            let rel = if prefix.is_empty() { entry.name.clone() } else { format!("{prefix}/{}", entry.name) };
            match entry.kind {
                Kind::File { len } => {
                    if seen_files.insert(entry.id) {
                        walk.size_bytes = walk.size_bytes.saturating_add(len);
                    }
                    walk.files.push(Found { rel, path: entry.path, len });
                }
                Kind::Folder if enters(&entry.name) && seen_folders.insert(entry.id) => {
                    if depth < MAX_DEPTH {
                        queue.push_back((entry.path, rel, depth.saturating_add(1)));
                    } else {
                        walk.cut = true;
                    }
                }
                Kind::Outside => walk.outside.push(rel),
                Kind::Folder | Kind::Other => {}
            }
        }
    }
    walk
}
