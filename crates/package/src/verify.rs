//! Compares a package with its manifest: every file, on all CPUs, without a network and without a gateway.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use crate::{
    checksums::Sha256Sum,
    contents::RESTORE_BACKUPS,
    hashing::Hasher,
    manifest::{CHECKSUMS, FileEntry, MANIFEST, OnDisk, PARTS, SIGNATURE, STAGING},
    package::{Package, open_file},
    path::PackagePath,
    stop::stopped,
};

/// Bytes that are read at a time; each thread has one such buffer.
const PIECE: usize = 1 << 20;
/// Most problems that are reported; a package with more has more wrong than a list can say.
const MOST_PROBLEMS: usize = 1000;

/// What is wrong with one file of a package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    #[error("`{0}` is missing")]
    Missing(PackagePath),
    #[error("`{path}` has {found} bytes instead of {wanted}")]
    Size { path: PackagePath, wanted: u64, found: u64 },
    #[error("`{0}` has another content than the manifest says")]
    Content(PackagePath),
    /// A link, a device, a pipe or a socket; nothing is read from it.
    #[error("`{0}` is neither a file nor a folder")]
    NotAFile(PathBuf),
    #[error("`{0}` is not in the manifest")]
    Extra(PathBuf),
    #[error("`{path}` can't be read: {why}")]
    Unreadable { path: PathBuf, why: String },
    #[error("`{CHECKSUMS}` is not the list of the manifest's checksums")]
    Checksums,
    /// Nothing reads it, and the package is whole without it.
    #[error("`{0}` was left by an operating system and does not belong to the package: it can be removed")]
    Litter(PathBuf),
}

impl Problem {
    /// Returns whether the package is not whole because of it.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Litter(_))
    }
}

/// How far work on a package is, and whether it is to stop. It is shared with the thread that shows it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes that are done.
    pub bytes: Arc<AtomicU64>,
    /// Set to end the work soon.
    pub stop: AtomicBool,
}

impl Progress {
    /// Ends what reads or writes once the work is to stop.
    ///
    /// # Errors
    /// That of [`stopped`].
    pub fn go_on(&self) -> io::Result<()> {
        if self.stop.load(Relaxed) { Err(stopped()) } else { Ok(()) }
    }
}

/// Compares a package with its manifest, by `threads` threads. Returns what is wrong, sorted, at most 1,000 problems; nothing
/// if the package is whole. Parts are read a second time, for their own sums. Files in a base are compared if the package has its base with it. Links are never followed.
///
/// # Errors
/// That of [`stopped`] if it was stopped; an error if the folder itself can't be read.
pub fn verify(package: &Package, threads: usize, progress: &Progress) -> io::Result<Vec<Problem>> {
    let manifest = package.manifest();
    let on_disk = manifest.on_disk();
    let mut problems = strangers(package.dir(), &on_disk)?;
    let wrong = wrong_size(package.dir(), &on_disk);
    let parts = parts(&on_disk, &wrong);
    // The list of checksums needs the memory.
    drop(on_disk);
    if !list_is(package.dir(), manifest.checksum_lines(package.manifest_sha256())) {
        problems.push(Problem::Checksums);
    }
    let is_there = |file: &FileEntry| !file.in_base || package.base().is_some();
    let files = manifest.files.iter().filter(|(path, file)| is_there(file) && !wrong.contains_key(path));
    let mut files: Vec<_> = files.collect();
    problems.extend(wrong.into_values());
    // The largest files first, so that no thread begins one when the others have ended.
    files.sort_by_key(|(_, file)| std::cmp::Reverse(file.size));
    let (next, found) = (AtomicUsize::new(0), Mutex::new(problems));
    let work = Work { package, files, parts, next, found, progress };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, (work.files.len() + work.parts.len()).max(1)) {
            scope.spawn(|| work.run());
        }
    });
    progress.go_on()?;
    let mut problems = work.found.into_inner();
    problems.sort();
    problems.dedup();
    problems.truncate(MOST_PROBLEMS);
    Ok(problems)
}

/// What the threads share.
struct Work<'a> {
    package: &'a Package,
    files: Vec<(&'a PackagePath, &'a FileEntry)>,
    /// Their sums are proven by no file: a file may end in the middle of a part.
    parts: Vec<(PackagePath, Sha256Sum)>,
    /// Index of the next file or part that no thread has begun.
    next: AtomicUsize,
    found: Mutex<Vec<Problem>>,
    progress: &'a Progress,
}

impl Work<'_> {
    fn run(&self) {
        let mut buffer = vec![0; PIECE];
        while !self.progress.stop.load(Relaxed) {
            let n = self.next.fetch_add(1, Relaxed);
            let problem = if let Some((path, file)) = self.files.get(n) {
                let content = self.package.content(path);
                compare(path, content, file.sha256, &mut buffer, self.progress)
            } else if let Some((path, sha256)) = self.parts.get(n - self.files.len()) {
                let content = open_file(&path.below(self.package.dir()));
                compare(path, content, *sha256, &mut buffer, self.progress)
            } else {
                return;
            };
            self.found.lock().extend(problem);
        }
    }
}

/// Returns what lies in the folder and does not belong to the package. Backups that a restore from it made do, and so does
/// an export into it that has not ended.
pub(crate) fn strangers(dir: &Path, on_disk: &OnDisk<'_>) -> io::Result<Vec<Problem>> {
    let (mut problems, mut litter, mut folders) = (Vec::new(), Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(dir.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if folder.as_os_str().is_empty() => return Err(error),
            Err(error) => {
                problems.push(Problem::Unreadable { path: folder, why: error.to_string() });
                continue;
            }
        };
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (folder.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                if path != Path::new(RESTORE_BACKUPS) && path != Path::new(STAGING) {
                    folders.push(path);
                }
            } else if !kind.is_file() {
                problems.push(Problem::NotAFile(path));
            } else if !is_known(&path, on_disk) && is_litter(&entry.file_name()) {
                litter.push(Problem::Litter(path));
                litter.truncate(MOST_PROBLEMS);
            } else if !is_known(&path, on_disk) {
                problems.push(Problem::Extra(path));
            }
            if problems.len() >= MOST_PROBLEMS {
                return Ok(problems);
            }
        }
    }
    problems.extend(litter);
    Ok(problems)
}

/// Whether macOS or Windows leaves files of this name in each folder that somebody looks into.
fn is_litter(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    [".DS_Store", "Thumbs.db", "desktop.ini"].contains(&&*name) || name.starts_with("._")
}

fn is_known(path: &Path, on_disk: &OnDisk<'_>) -> bool {
    let Some(name) = path.to_str() else { return false };
    [MANIFEST, CHECKSUMS, SIGNATURE].contains(&name) || on_disk.contains_key(name)
}

/// Returns whether `checksums.sha256` has these lines. Nothing more of it is read.
fn list_is(dir: &Path, wanted: impl Iterator<Item = String>) -> bool {
    let Ok(file) = open_file(&dir.join(CHECKSUMS)) else { return false };
    let (mut file, mut found) = (BufReader::new(file), Vec::new());
    for line in wanted {
        found.clear();
        let read = (&mut file).take(line.len() as u64).read_to_end(&mut found);
        if read.is_err() || found != line.as_bytes() {
            return false;
        }
    }
    file.fill_buf().is_ok_and(<[u8]>::is_empty)
}

/// Returns which files are missing, are no files or have another size. This opens none of them.
fn wrong_size(dir: &Path, on_disk: &OnDisk<'_>) -> BTreeMap<PackagePath, Problem> {
    let problem = |(name, (wanted, _)): (&Cow<'_, str>, &(u64, Sha256Sum))| {
        let path = PackagePath::new(name).ok()?;
        let problem = match fs::symlink_metadata(path.below(dir)) {
            Ok(found) if !found.is_file() => Problem::NotAFile(name.as_ref().into()),
            Ok(found) if found.len() == *wanted => return None,
            Ok(found) => Problem::Size { path: path.clone(), wanted: *wanted, found: found.len() },
            Err(error) => unreadable(&path, &error),
        };
        Some((path, problem))
    };
    on_disk.iter().filter_map(problem).collect()
}

fn unreadable(path: &PackagePath, why: &io::Error) -> Problem {
    match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Problem::Missing(path.clone()),
        _ => Problem::Unreadable { path: path.as_str().into(), why: why.to_string() },
    }
}

/// Returns the parts that have their size, with their sums.
fn parts(on_disk: &OnDisk<'_>, wrong: &BTreeMap<PackagePath, Problem>) -> Vec<(PackagePath, Sha256Sum)> {
    let of = |(name, (_, sha256)): (&Cow<'_, str>, &(u64, Sha256Sum))| {
        let path = PackagePath::new(name).ok().filter(|it| it.top() == PARTS && !wrong.contains_key(it))?;
        Some((path, *sha256))
    };
    on_disk.iter().filter_map(of).collect()
}

/// Returns what is wrong with a file.
fn compare(
    path: &PackagePath,
    content: io::Result<impl Read>,
    wanted: Sha256Sum,
    buffer: &mut [u8],
    progress: &Progress,
) -> Option<Problem> {
    let mut content = match content {
        Ok(content) => content,
        Err(error) => return Some(unreadable(path, &error)),
    };
    match sum(&mut content, buffer, progress) {
        Ok(None) => None,
        Ok(Some(sum)) if sum == wanted => None,
        Ok(Some(_)) => Some(Problem::Content(path.clone())),
        Err(error) => Some(unreadable(path, &error)),
    }
}

/// Returns the SHA-256 of a content; `None` if it was stopped.
fn sum(content: &mut dyn Read, buffer: &mut [u8], progress: &Progress) -> io::Result<Option<Sha256Sum>> {
    let mut hasher = Hasher::default();
    loop {
        if progress.stop.load(Relaxed) {
            return Ok(None);
        }
        match content.read(buffer) {
            Ok(0) => return Ok(Some(hasher.finish())),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                progress.bytes.fetch_add(n as u64, Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, os::unix::fs::symlink};

    use proptest::prelude::*;
    use tempfile::TempDir;

    use sha2::{Digest, Sha256};

    use super::*;
    use crate::{contents::Contents, manifest::Manifest};

    /// Writes a package with these files.
    fn package(files: &[(&str, &[u8])]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut entries = BTreeMap::new();
        for (name, content) in files {
            let path = PackagePath::new(name).unwrap();
            fs::create_dir_all(path.below(dir.path()).parent().unwrap()).unwrap();
            fs::write(path.below(dir.path()), content).unwrap();
            let sha256 = Sha256Sum(Sha256::digest(content).into());
            let size = content.len() as u64;
            entries.insert(path, FileEntry { size, sha256, modified_at: None, at: None, in_base: false });
        }
        let manifest = Manifest {
            format_version: 1,
            id: "x".to_owned(),
            created_at: "2026-01-02T03:04:05Z".to_owned(),
            gateway_version: "0.1.0".to_owned(),
            base: None,
            parts: None,
            contents: Contents::default(),
            files: entries,
            links: BTreeMap::new(),
            pieces: BTreeMap::new(),
        };
        let text = manifest.to_json().unwrap();
        let sums = manifest.checksums(Sha256Sum(Sha256::digest(&text).into()));
        fs::write(dir.path().join(MANIFEST), text).unwrap();
        fs::write(dir.path().join(CHECKSUMS), sums).unwrap();
        dir
    }

    fn problems(dir: &TempDir) -> Vec<String> {
        let package = Package::open(dir.path()).unwrap();
        let problems = verify(&package, 3, &Progress::default()).unwrap();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_whole_package_has_no_problem_for_us_and_for_sha256sum() {
        let large = vec![7; 3_000_000];
        let dir = package(&[("db/dump.sql", b"x"), ("models/größe 1.gguf", &large), ("empty", b"")]);
        fs::create_dir_all(dir.path().join(RESTORE_BACKUPS)).unwrap();
        fs::write(dir.path().join(RESTORE_BACKUPS).join("old.sql"), "x").unwrap();
        let (package, progress) = (Package::open(dir.path()).unwrap(), Progress::default());
        assert_eq!(verify(&package, 2, &progress).unwrap(), []);
        assert_eq!(progress.bytes.load(Relaxed), package.manifest().size());
        let mut command = std::process::Command::new("sha256sum");
        let checked = command.args(["-c", "--strict", CHECKSUMS]).current_dir(dir.path()).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }

    #[test]
    fn whatever_is_missing_extra_or_different_is_named() {
        let files: [(&str, &[u8]); 4] = [("a", b"one"), ("b", b"two"), ("c", b"three"), ("d/e", b"four")];
        let dir = package(&files);
        fs::remove_file(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("b"), "tw").unwrap();
        fs::write(dir.path().join("c"), "thrée".replace('é', "e").replace('h', "H")).unwrap();
        fs::write(dir.path().join("d/new"), "x").unwrap();
        symlink("/etc/passwd", dir.path().join("d/link")).unwrap();
        fs::write(dir.path().join(CHECKSUMS), "").unwrap();
        assert_eq!(
            problems(&dir),
            [
                "`a` is missing",
                "`b` has 2 bytes instead of 3",
                "`c` has another content than the manifest says",
                "`d/link` is neither a file nor a folder",
                "`d/new` is not in the manifest",
                "`checksums.sha256` is not the list of the manifest's checksums",
            ]
        );
    }

    #[test]
    fn what_an_operating_system_left_is_named_and_is_no_damage() {
        let dir = package(&[("a", b"one"), ("d/._own", b"of the package")]);
        for name in [".DS_Store", "d/Thumbs.db", "d/._e"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let found = verify(&Package::open(dir.path()).unwrap(), 1, &Progress::default()).unwrap();
        let litter = [".DS_Store", "d/._e", "d/Thumbs.db"].map(|it| Problem::Litter(it.into()));
        assert_eq!(found, litter);
        assert!(!found.iter().any(Problem::is_damage));
        fs::write(dir.path().join("d/other"), "x").unwrap();
        assert!(problems(&dir).contains(&"`d/other` is not in the manifest".to_owned()));
    }

    #[test]
    fn a_link_in_place_of_a_file_is_not_followed() {
        let dir = package(&[("a", b"one"), ("d/e", b"four")]);
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("a"), "one").unwrap();
        fs::remove_file(dir.path().join("a")).unwrap();
        symlink(outside.path().join("a"), dir.path().join("a")).unwrap();
        let found = problems(&dir);
        assert_eq!(found, ["`a` is neither a file nor a folder"]);
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let dir = package(&[("a", b"one")]);
        let progress = Progress::default();
        progress.stop.store(true, Relaxed);
        let stopped = verify(&Package::open(dir.path()).unwrap(), 1, &progress).unwrap_err();
        assert!(crate::stop::is_stop(&stopped), "{stopped}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_flipped_bit_or_a_cut_is_found_wherever_it_is(place in any::<prop::sample::Index>(), bit in 0..8u8, cut: bool) {
            let files: [(&str, &[u8]); 3] = [("a", &[1; 5000]), ("b/c", b"text"), ("d", &[0; 64])];
            let dir = package(&files);
            let total: usize = files.iter().map(|(_, content)| content.len()).sum();
            let mut at = place.index(total);
            let (name, content) = files.iter().find(|(_, content)| {
                let here = at < content.len();
                at -= if here { 0 } else { content.len() };
                here
            }).unwrap();
            let mut content = content.to_vec();
            if cut { content.truncate(at) } else { content[at] ^= 1 << bit }
            fs::write(dir.path().join(name), content).unwrap();
            let found = problems(&dir);
            prop_assert!(found.len() == 1 && found[0].contains(&format!("`{name}`")), "{:?}", found);
        }
    }
}
