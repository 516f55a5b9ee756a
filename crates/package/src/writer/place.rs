//! Puts what an export made into its place.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{
    WriteError, at,
    output::{create, folders, set_modified},
    sums::is_as_it_was,
};
use crate::{
    checksums::Sha256Sum,
    hashing::Hasher,
    manifest::{CHECKSUMS, FileEntry, MANIFEST, Manifest, SIGNATURE, STAGING},
    package::{OpenError, Package},
    verify::strangers,
};

/// Name of the manifest of the package as it was, while the new one is put in place.
const OLD_MANIFEST: &str = "old-manifest.json";

/// Locks the folder against a second export into it, for as long as the result lives.
pub(super) fn lock(dir: &Path) -> Result<File, WriteError> {
    let file = File::open(dir).map_err(at(dir.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(WriteError::Busy(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(at(dir.display())(error)),
    }
}

/// Returns the package that is in the folder. An empty folder, or one with an export that has not ended, has none.
pub(super) fn package_of(dir: &Path) -> Result<Option<Package>, WriteError> {
    let (on_disk, package) = match Package::open(dir) {
        Ok(package) => (package.manifest().on_disk(), Some(package)),
        Err(OpenError::Io { path, error }) => return Err(at(path.display())(error)),
        Err(_) => (BTreeMap::new(), None),
    };
    let found = strangers(dir, &on_disk).map_err(at(dir.display()))?;
    let stranger = found.first().map(|it| PathBuf::from(it.to_string()));
    // Without a readable manifest, a file of that name is a stranger too.
    let manifest = dir.join(MANIFEST);
    let stranger = stranger.or_else(|| (package.is_none() && manifest.exists()).then_some(manifest));
    match stranger {
        Some(found) => Err(WriteError::Occupied { dir: dir.to_owned(), found }),
        None => Ok(package),
    }
}

/// Returns whether the parts of a package are still as they were written.
pub(super) fn parts_are_as_they_were(dir: &Path, manifest: &Manifest) -> bool {
    let Some(parts) = &manifest.parts else { return false };
    manifest.on_disk().iter().filter(|(name, _)| name.starts_with("parts/")).all(|(name, (size, sha256))| {
        let modified_at = Some(parts.modified_at);
        let entry = FileEntry { size: *size, sha256: *sha256, modified_at, at: None, in_base: false };
        is_as_it_was(&dir.join(name), &entry)
    })
}

/// Removes a file or a folder with everything in it, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), WriteError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path.display())(error)),
        _ => Ok(()),
    }
}

/// Makes the new package the one in the folder. Everything that it consists of is on the disk already.
pub(super) fn commit(
    dir: &Path,
    manifest: &Manifest,
    text: &[u8],
    signature: Option<&str>,
) -> Result<(), WriteError> {
    let staging = dir.join(STAGING);
    let mut own = Hasher::default();
    own.update(text);
    store(&staging, CHECKSUMS, manifest.checksums(own.finish()).as_bytes())?;
    if let Some(signature) = signature {
        store(&staging, SIGNATURE, signature.as_bytes())?;
    }
    // From here on the next run would put everything in place, too.
    store(&staging, MANIFEST, text)?;
    finish_pending(dir)
}

/// Puts the files of an export in place that ended before it could do so. Does nothing if there is none.
pub(super) fn finish_pending(dir: &Path) -> Result<(), WriteError> {
    let staging = dir.join(STAGING);
    let path = staging.join(MANIFEST);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text.map_err(at(path.display()))?,
    };
    let manifest = Manifest::parse(&text)?;
    for name in [SIGNATURE, CHECKSUMS] {
        remove(&dir.join(name))?;
    }
    rename(&dir.join(MANIFEST), &staging.join(OLD_MANIFEST))?;
    let on_disk = manifest.on_disk();
    for name in on_disk.keys() {
        rename(&staging.join("files").join(name), &dir.join(name))?;
    }
    if let Some(parts) = &manifest.parts {
        for name in on_disk.keys().filter(|it| it.starts_with("parts/")) {
            let path = dir.join(name);
            let dated = File::open(&path).and_then(|it| set_modified(&it, parts.modified_at));
            dated.map_err(at(path.display()))?;
        }
    }
    remove_old(dir, &staging.join(OLD_MANIFEST), &on_disk)?;
    sync_folders(dir)?;
    for name in [SIGNATURE, CHECKSUMS] {
        rename(&staging.join(name), &dir.join(name))?;
    }
    sync(dir)?;
    // A copy, because the one in the staging folder says that this is not complete until the folder is gone.
    store(dir, MANIFEST, &text)?;
    remove(&staging)?;
    sync(dir)
}

/// Writes a small file in one step: it is there as a whole or not at all.
fn store(dir: &Path, name: &str, text: &[u8]) -> Result<(), WriteError> {
    let (path, part) = (dir.join(name), dir.join(format!("{name}.part")));
    let write = || {
        let mut file = create(&part)?;
        file.set_len(0)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&part, &path)
    };
    write().map_err(at(path.display()))?;
    sync(dir)
}

/// Moves a file if it is there; otherwise it was moved before, or there is none.
fn rename(from: &Path, to: &Path) -> Result<(), WriteError> {
    if let Some(folder) = to.parent() {
        folders(folder).map_err(at(folder.display()))?;
    }
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved.map_err(at(to.display())),
    }
}

/// Removes the files of the package as it was that the new one does not have, and the folders that are empty then.
fn remove_old(
    dir: &Path,
    old_manifest: &Path,
    keep: &BTreeMap<String, (u64, Sha256Sum)>,
) -> Result<(), WriteError> {
    let Ok(text) = fs::read(old_manifest) else { return Ok(()) };
    for name in Manifest::parse(&text)?.on_disk().into_keys().filter(|it| !keep.contains_key(it)) {
        let path = dir.join(name);
        remove(&path)?;
        // Fails for the first folder that has something in it, which is to stay.
        let folders = path.ancestors().skip(1).take_while(|it| *it != dir);
        let _ = folders.map(fs::remove_dir).take_while(Result::is_ok).count();
    }
    Ok(())
}

fn sync(dir: &Path) -> Result<(), WriteError> {
    File::open(dir).and_then(|it| it.sync_all()).map_err(at(dir.display()))
}

/// Lets the disk store the names of all files.
fn sync_folders(dir: &Path) -> Result<(), WriteError> {
    let file = File::open(dir).map_err(at(dir.display()))?;
    rustix::fs::syncfs(&file).map_err(|error| at(dir.display())(error.into()))
}
