//! What of a folder goes into a package: its files and links, looked at before anything is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    manifest::STAGING,
    path::{LinkTarget, PackagePath},
    unpack::QUARANTINE,
};

/// Most problems that are listed.
const MOST_PROBLEMS: usize = 10;
/// Deepest folder that is looked into.
const DEEPEST: usize = 64;

/// A file to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name in the package. [`Roots::from`] says where it lies.
    pub path: PackagePath,
    /// Bytes.
    pub size: u64,
}

/// Files and links, sorted by name.
#[derive(Debug, Default)]
pub struct Source {
    pub files: Vec<SourceFile>,
    pub links: Vec<(PackagePath, LinkTarget)>,
    /// Files that are no weights yet, by their names: downloads that have not ended. For people.
    pub left_out: BTreeSet<String>,
    pub roots: Roots,
}

/// The folders that files come from, by the folder of the package that they go into.
#[derive(Debug, Default)]
pub struct Roots(BTreeMap<String, PathBuf>);

impl Roots {
    /// Returns where a file of the package comes from.
    pub fn from(&self, path: &PackagePath) -> PathBuf {
        let root = self.0.get(path.top()).cloned().unwrap_or_default();
        path.below_top().map_or_else(|| root.clone(), |it| root.join(it))
    }
}

/// Why a folder can't be carried as it is.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// What is wrong, one line each.
    #[error("{}", .0.join("; "))]
    Unusable(Vec<String>),
}

impl Source {
    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        self.files.iter().fold(0, |sum, it| sum.saturating_add(it.size))
    }

    /// Adds what is at `below` in the folder `root`: a file, or a folder with everything in it. In the package it lies in
    /// `top`. Downloads that have not ended are [left out](Self::left_out), and so are folders of locks and of an import or export that is
    /// under way.
    ///
    /// # Errors
    /// [`SourceError::Unusable`] for a link that leads out of the folder (following it could carry anything), and for a name
    /// that is not the same file on every file system.
    pub fn add(&mut self, root: &Path, below: &Path, top: &str) -> Result<(), SourceError> {
        self.roots.0.insert(top.to_owned(), root.to_owned());
        let mut walk = Walk { root, top, problems: Vec::new(), source: self };
        walk.visit(below, 0)?;
        let mut problems = walk.problems;
        if problems.is_empty() {
            self.files.sort_by(|a, b| a.path.cmp(&b.path));
            self.files.dedup();
            self.links.sort_by(|a, b| a.0.cmp(&b.0));
            self.links.dedup();
            return Ok(());
        }
        let more = problems.len().saturating_sub(MOST_PROBLEMS);
        if more > 0 {
            problems.truncate(MOST_PROBLEMS);
            problems.push(format!("and {more} more"));
        }
        Err(SourceError::Unusable(problems))
    }
}

struct Walk<'a> {
    root: &'a Path,
    top: &'a str,
    problems: Vec<String>,
    source: &'a mut Source,
}

impl Walk<'_> {
    fn visit(&mut self, below: &Path, depth: usize) -> Result<(), SourceError> {
        let from = self.root.join(below);
        let failed = |error| SourceError::Io { path: from.clone(), error };
        let found = match fs::symlink_metadata(&from) {
            // It was removed since the folder was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && depth > 0 => return Ok(()),
            found => found.map_err(failed)?,
        };
        if found.is_dir() {
            if depth >= DEEPEST {
                self.problems.push(format!("{} is nested too deep", from.display()));
                return Ok(());
            }
            let mut names: Vec<_> = fs::read_dir(&from)
                .and_then(|it| it.map(|entry| Ok(entry?.file_name())).collect())
                .map_err(failed)?;
            names.sort();
            for name in names.iter().filter(|it| !is_of_others(&it.to_string_lossy())) {
                self.visit(&below.join(name), depth + 1)?;
            }
            return Ok(());
        }
        // What a model names as its weights is carried whatever its name.
        if depth > 0 && found.is_file() && is_unfinished(&below.to_string_lossy()) {
            self.source.left_out.insert(format!("{}/{}", self.top, below.display()));
            return Ok(());
        }
        let Some(path) = self.path(below, &from) else { return Ok(()) };
        if found.is_file() {
            self.source.files.push(SourceFile { path, size: found.size() });
        } else if found.is_symlink() {
            let target = fs::read_link(&from).map_err(failed)?;
            match target.to_str().map(LinkTarget::new).filter(|it| it.stays_in_folder(&path)) {
                Some(target) => self.source.links.push((path, target)),
                None => self.problems.push(format!(
                    "{} is a link that leads out of {}, or goes up behind a name, to {}: put the file itself there, or remove the \
                     link",
                    from.display(),
                    self.root.display(),
                    target.display()
                )),
            }
        }
        // Sockets, pipes and devices are no weights.
        Ok(())
    }

    fn path(&mut self, below: &Path, from: &Path) -> Option<PackagePath> {
        let name = below.to_str().map(|it| format!("{}/{it}", self.top));
        let Some(name) = name else {
            self.problems.push(format!("the name of {} is not UTF-8 text: rename it", from.display()));
            return None;
        };
        PackagePath::new(name.trim_end_matches('/'))
            .map_err(|error| self.problems.push(format!("{error}: rename {}", from.display())))
            .ok()
    }
}

/// Whether a folder of this name belongs to the file system, to the hub's client or to a job of the gateway.
fn is_of_others(name: &str) -> bool {
    [".locks", "lost+found", STAGING].contains(&name) || name.starts_with(QUARANTINE)
}

/// Whether a file is, by its name, a download that has not ended.
fn is_unfinished(name: &str) -> bool {
    [".incomplete", ".part", ".downloadInProgress"].iter().any(|it| name.ends_with(it))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(source: &Source) -> Vec<&str> {
        source.files.iter().map(|it| it.path.as_str()).collect()
    }

    #[test]
    fn files_and_inner_links_are_taken_and_half_downloads_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = dir.path().join("hub/models--a--b/snapshots/1");
        let blobs = dir.path().join("hub/models--a--b/blobs");
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(&blobs).unwrap();
        fs::create_dir_all(dir.path().join("hub/.locks/x")).unwrap();
        fs::create_dir_all(dir.path().join(format!("{QUARANTINE}7"))).unwrap();
        for (path, text) in [
            (blobs.join("00ff"), "weights"),
            (blobs.join("11ee.incomplete"), "half"),
            (dir.path().join("hub/.locks/x/y.lock"), ""),
            (dir.path().join(format!("{QUARANTINE}7/x")), "half"),
            (dir.path().join("a.gguf"), "gguf"),
            (dir.path().join("hub/poetry.lock"), "packed"),
        ] {
            fs::write(path, text).unwrap();
        }
        symlink("../../blobs/00ff", snapshot.join("model.safetensors")).unwrap();
        let mut source = Source::default();
        source.add(dir.path(), Path::new(""), "hub-cache").unwrap();
        assert_eq!(
            names(&source),
            ["hub-cache/a.gguf", "hub-cache/hub/models--a--b/blobs/00ff", "hub-cache/hub/poetry.lock"]
        );
        assert_eq!(source.size(), 17);
        assert_eq!(
            source.left_out.iter().collect::<Vec<_>>(),
            ["hub-cache/hub/models--a--b/blobs/11ee.incomplete"]
        );
        assert_eq!(source.roots.from(&source.files[1].path), blobs.join("00ff"));
        let (link, target) = &source.links[0];
        assert_eq!(link.as_str(), "hub-cache/hub/models--a--b/snapshots/1/model.safetensors");
        assert_eq!(target.as_str(), "../../blobs/00ff");

        let mut named = Source::default();
        named.add(dir.path(), Path::new("hub/models--a--b/blobs/11ee.incomplete"), "hub-cache").unwrap();
        assert_eq!(names(&named), ["hub-cache/hub/models--a--b/blobs/11ee.incomplete"]);
        let mut part = Source::default();
        part.add(dir.path(), Path::new("a.gguf"), "models").unwrap();
        part.add(dir.path(), Path::new("a.gguf"), "models").unwrap();
        assert_eq!(names(&part), ["models/a.gguf"], "twice is once");
        assert!(part.add(dir.path(), Path::new("gone"), "models").is_err());
    }

    #[test]
    fn links_out_and_names_that_do_not_travel_are_named_before_anything_is_done() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/etc/passwd", dir.path().join("a")).unwrap();
        symlink("../../x", dir.path().join("b")).unwrap();
        fs::write(dir.path().join("c:d"), "").unwrap();
        let error = Source::default().add(dir.path(), Path::new(""), "models").unwrap_err().to_string();
        for said in ["to /etc/passwd", "to ../../x", "rename"] {
            assert!(error.contains(said), "{error}");
        }
    }
}
