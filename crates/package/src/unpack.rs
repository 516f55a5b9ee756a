//! Puts weights of a package where engines read them: verified, whole, and never over a file that is there.
//!
//! Files go into a quarantine folder in the same file system first. When all are there with the right SHA-256, they get
//! their names, a new folder in one step, and only where nothing has that name.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, SystemTime},
};

use rustix::fs::{CWD, RenameFlags};

use crate::{
    hashing::Hasher,
    manifest::FileEntry,
    package::{Package, open_file},
    path::PackagePath,
    stop::is_stop,
    verify::Progress,
};

/// How names of quarantine folders begin.
pub const QUARANTINE: &str = ".gantry-import-";
/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// What of a package goes where.
#[derive(Debug, Clone)]
pub struct Unpack<'a> {
    pub package: &'a Package,
    /// Files, links and folders of the package to unpack.
    pub places: &'a [PackagePath],
    /// The folder that gets what is below the first folder of their names: `to/a` for `models/a`.
    pub to: &'a Path,
}

/// What an [`Unpack`] would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnpackPlan<'a> {
    /// Files that are not there yet.
    pub missing: Vec<&'a PackagePath>,
    /// Bytes of those.
    pub bytes: u64,
    /// Files that are there with the same size. Their content is compared before anything is put in place.
    pub present: Vec<&'a PackagePath>,
    /// Names that something else has: a file of another size, a folder, a link.
    pub taken: Vec<&'a PackagePath>,
    /// Links that are not there yet.
    pub links: Vec<&'a PackagePath>,
}

/// Why files can't be unpacked. Nothing was put in place unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("it was stopped")]
    Stopped,
    #[error("{} is there already with another content: it is left as it is; move it away and import again", .0.display())]
    Taken(PathBuf),
    #[error("`{0}` of the package has another content than its manifest says")]
    Damaged(PackagePath),
    #[error("{what}: {error}")]
    Io { what: String, error: io::Error },
}

fn at(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> UnpackError {
    let what = what.to_string();
    move |error| if is_stop(&error) { UnpackError::Stopped } else { UnpackError::Io { what, error } }
}

/// Files that are verified and wait in their quarantine folder. Dropping this removes them.
#[derive(Debug)]
pub struct Staged<'a> {
    plan: UnpackPlan<'a>,
    quarantine: PathBuf,
    to: PathBuf,
}

impl<'a> Staged<'a> {
    fn is_empty(&self) -> bool {
        self.plan.missing.is_empty() && self.plan.links.is_empty()
    }

    /// Gives the files their names.
    ///
    /// # Errors
    /// A name was taken by somebody else in the last moment: then what was put in place before is whole, and another run does
    /// the rest.
    pub fn place(mut self) -> Result<UnpackPlan<'a>, UnpackError> {
        if !self.is_empty() {
            place(&self.quarantine, &self.to)?;
            remove(&self.quarantine)?;
        }
        Ok(std::mem::take(&mut self.plan))
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // The next import removes what can't be removed now.
        let _ = remove(&self.quarantine);
    }
}

impl<'a> Unpack<'a> {
    /// Returns what is to be done, by names and sizes alone.
    pub fn plan(&self) -> UnpackPlan<'a> {
        let (mut plan, manifest) = (UnpackPlan::default(), self.package.manifest());
        for path in self.names() {
            let target = self.target(path);
            let found = fs::symlink_metadata(&target);
            match (manifest.files.get(path), manifest.links.get(path), found) {
                (Some(entry), _, Err(_)) => {
                    plan.bytes = plan.bytes.saturating_add(entry.size);
                    plan.missing.push(path);
                }
                (Some(entry), _, Ok(found)) if found.is_file() && found.len() == entry.size => {
                    plan.present.push(path);
                }
                (_, Some(_), Err(_)) => plan.links.push(path),
                (_, Some(link), Ok(_))
                    if fs::read_link(&target).is_ok_and(|it| it == Path::new(link.as_str())) => {}
                _ => plan.taken.push(path),
            }
        }
        plan
    }

    /// Copies what is missing into a quarantine folder, and verifies it and what is there already. `id` makes the name of the
    /// folder; what an earlier run under the same name left is removed.
    ///
    /// # Errors
    /// Something is not as the manifest says, can't be copied, or has another content where it would go.
    pub fn stage(&self, id: &str, progress: &Progress) -> Result<Staged<'a>, UnpackError> {
        let plan = self.plan();
        if let Some(path) = plan.taken.first() {
            return Err(UnpackError::Taken(self.target(path)));
        }
        for path in &plan.present {
            self.compare(path, progress)?;
        }
        let quarantine = self.to.join(format!("{QUARANTINE}{id}"));
        remove(&quarantine)?;
        let staged = Staged { plan, quarantine, to: self.to.to_owned() };
        if !staged.is_empty() {
            self.fill(&staged.quarantine, &staged.plan, progress)?;
        }
        Ok(staged)
    }

    fn names(&self) -> impl Iterator<Item = &'a PackagePath> {
        let manifest = self.package.manifest();
        let all = manifest.files.keys().chain(manifest.links.keys());
        all.filter(|it| self.places.iter().any(|place| it.is_at(place)) && it.below_top().is_some())
    }

    fn target(&self, path: &PackagePath) -> PathBuf {
        self.to.join(path.below_top().unwrap_or_default())
    }

    /// Compares a file that is there with the package's.
    fn compare(&self, path: &PackagePath, progress: &Progress) -> Result<(), UnpackError> {
        let Some(entry) = self.package.manifest().files.get(path) else { return Ok(()) };
        let target = self.target(path);
        let mut file = open_file(&target).map_err(at(target.display()))?;
        let sum = pour(&mut file, None, progress).map_err(at(target.display()))?.finish();
        if sum == entry.sha256 { Ok(()) } else { Err(UnpackError::Taken(target)) }
    }

    fn fill(&self, quarantine: &Path, plan: &UnpackPlan<'_>, progress: &Progress) -> Result<(), UnpackError> {
        folders(quarantine)?;
        for path in plan.missing.iter().copied() {
            let Some(entry) = self.package.manifest().files.get(path) else { continue };
            self.copy(path, entry, &quarantine.join(path.below_top().unwrap_or_default()), progress)?;
        }
        for path in plan.links.iter().copied() {
            let Some(link) = self.package.manifest().links.get(path) else { continue };
            let to = quarantine.join(path.below_top().unwrap_or_default());
            parent_folders(&to)?;
            symlink(link.as_str(), &to).map_err(at(to.display()))?;
        }
        let dir = File::open(quarantine).map_err(at(quarantine.display()))?;
        rustix::fs::syncfs(&dir).map_err(|error| at(quarantine.display())(error.into()))
    }

    fn copy(
        &self,
        path: &PackagePath,
        entry: &FileEntry,
        to: &Path,
        progress: &Progress,
    ) -> Result<(), UnpackError> {
        parent_folders(to)?;
        let mut content = self.package.content(path).map_err(at(path))?;
        // Engines run as other users, and only read.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(to);
        let mut file = file.map_err(at(to.display()))?;
        let hasher = pour(&mut content, Some(&mut file), progress).map_err(at(path))?;
        if hasher.finish() != entry.sha256 {
            return Err(UnpackError::Damaged(path.clone()));
        }
        file.set_len(entry.size).map_err(at(to.display()))?;
        if let Some(ms) = entry.modified_at.and_then(|it| u64::try_from(it).ok()) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
            file.set_modified(time).map_err(at(to.display()))?;
        }
        Ok(())
    }
}

/// Removes quarantine folders that an import left in `to` when it was killed.
///
/// # Errors
/// The folder can't be read, or one of them can't be removed.
pub fn remove_quarantines(to: &Path) -> Result<(), UnpackError> {
    let entries = match fs::read_dir(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(at(to.display()))?,
    };
    for entry in entries {
        let entry = entry.map_err(at(to.display()))?;
        if entry.file_name().to_string_lossy().starts_with(QUARANTINE) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Reads to the end, and writes what was read; zeros become holes.
fn pour(from: &mut dyn Read, mut to: Option<&mut File>, progress: &Progress) -> io::Result<Hasher> {
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; PIECE]);
    loop {
        progress.go_on()?;
        let n = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if n == 0 {
            return Ok(hasher);
        }
        hasher.update(&buffer[..n]);
        progress.bytes.fetch_add(n as u64, Relaxed);
        match &mut to {
            None => {}
            Some(file) if buffer[..n] == ZEROS[..n] => drop(file.seek(SeekFrom::Current(n as i64))?),
            Some(file) => file.write_all(&buffer[..n])?,
        }
    }
}

/// Gives everything in `from` its name in `to`: a whole folder at once where there is none of that name.
fn place(from: &Path, to: &Path) -> Result<(), UnpackError> {
    let entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    for entry in entries.map_err(at(from.display()))? {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let is_dir = entry.file_type().map_err(at(source.display()))?.is_dir();
        if is_dir && fs::symlink_metadata(&target).is_ok_and(|it| it.is_dir()) {
            place(&source, &target)?;
            continue;
        }
        match rustix::fs::renameat_with(CWD, &source, CWD, &target, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) => return Err(UnpackError::Taken(target)),
            // File systems that can't do both in one step, such as NFS.
            Err(rustix::io::Errno::INVAL) if fs::symlink_metadata(&target).is_err() => {
                fs::rename(&source, &target).map_err(at(target.display()))?;
            }
            moved => moved.map_err(|error| at(target.display())(error.into()))?,
        }
    }
    File::open(to).and_then(|it| it.sync_all()).map_err(at(to.display()))
}

fn parent_folders(path: &Path) -> Result<(), UnpackError> {
    path.parent().map_or(Ok(()), folders)
}

/// Makes folders that engines may read.
fn folders(path: &Path) -> Result<(), UnpackError> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(at(path.display()))
}

fn remove(path: &Path) -> Result<(), UnpackError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path.display())(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::MetadataExt, sync::Arc};

    use tempfile::TempDir;

    use super::*;
    use crate::{
        contents::Contents,
        path::LinkTarget,
        writer::{Origin, PackageWriter, WriterOptions},
    };

    fn path(name: &str) -> PackagePath {
        PackagePath::new(name).unwrap()
    }

    /// A package with a model of two files, one of a single file, and a link.
    fn package(dir: &Path) -> Package {
        let mut writer = PackageWriter::open(dir, WriterOptions::default(), Arc::default()).unwrap();
        for name in ["models/a/one", "models/a/two", "models/b.gguf", "db/dump.sql"] {
            writer.put(&path(name), &mut name.as_bytes()).unwrap();
        }
        writer.link(&path("models/a/link"), LinkTarget::new("one")).unwrap();
        let origin = Origin { id: "1".to_owned(), created_at: String::new(), gateway_version: String::new() };
        writer.finish(&origin, &Contents::default(), None).unwrap()
    }

    /// Returns what was missing, and the bytes of that.
    fn run(package: &Package, to: &TempDir, places: &[&str]) -> Result<(Vec<PackagePath>, u64), UnpackError> {
        let places: Vec<_> = places.iter().map(|it| path(it)).collect();
        let unpack = Unpack { package, places: &places, to: to.path() };
        let done = unpack.stage("7", &Progress::default())?.place()?;
        Ok((done.missing.into_iter().cloned().collect(), done.bytes))
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_missing_is_put_in_place_and_what_is_there_stays() {
        let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let package = package(dir.path());
        fs::create_dir_all(to.path().join("a")).unwrap();
        fs::write(to.path().join("a/one"), "models/a/one").unwrap();
        fs::write(to.path().join("a/own"), "of the user").unwrap();
        fs::create_dir_all(to.path().join(format!("{QUARANTINE}7/rest"))).unwrap();
        let before = fs::metadata(to.path().join("a/one")).unwrap().ino();
        let plan = run(&package, &to, &["models/a", "models/b.gguf"]).unwrap();
        assert_eq!(plan, (vec![path("models/a/two"), path("models/b.gguf")], 12 + 13));
        assert_eq!(names(to.path()), ["a", "b.gguf"]);
        assert_eq!(names(&to.path().join("a")), ["link", "one", "own", "two"]);
        assert_eq!(fs::read_link(to.path().join("a/link")).unwrap(), Path::new("one"));
        let file = fs::metadata(to.path().join("b.gguf")).unwrap();
        assert_eq!(file.mode() & 0o777, 0o644, "engines run as other users");
        assert_eq!(fs::metadata(to.path().join("a/one")).unwrap().ino(), before);
        assert_eq!(run(&package, &to, &["models"]).unwrap().0, []);
    }

    #[test]
    fn a_file_with_another_content_is_never_overwritten_and_nothing_is_put_in_place() {
        for (name, text) in [("a/two", "of the user"), ("a/two", "models/a/2wo"), ("b.gguf/x", "")] {
            let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let package = package(dir.path());
            fs::create_dir_all(to.path().join(name).parent().unwrap()).unwrap();
            fs::write(to.path().join(name), text).unwrap();
            let error = run(&package, &to, &["models"]).unwrap_err();
            assert!(matches!(error, UnpackError::Taken(_)), "{error}");
            assert_eq!(fs::read_to_string(to.path().join(name)).unwrap(), text);
            assert_eq!(names(to.path()).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_damaged_file_is_found_before_anything_is_put_in_place() {
        let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let package = package(dir.path());
        fs::write(dir.path().join("models/b.gguf"), "models/B.gguf").unwrap();
        let error = run(&package, &to, &["models"]).unwrap_err();
        assert!(matches!(&error, UnpackError::Damaged(it) if it.as_str() == "models/b.gguf"), "{error}");
        assert_eq!(names(to.path()), [""; 0]);
        let stopped = Progress::default();
        stopped.stop.store(true, Relaxed);
        let unpack = Unpack { package: &package, places: &[path("models/a")], to: to.path() };
        assert!(matches!(unpack.stage("7", &stopped), Err(UnpackError::Stopped)));
        assert_eq!(names(to.path()), [""; 0]);
        let staged = unpack.stage("7", &Progress::default()).unwrap();
        assert_eq!(names(to.path()), [format!("{QUARANTINE}7")], "nothing has its name yet");
        drop(staged);
        assert_eq!(names(to.path()), [""; 0]);
    }
}
