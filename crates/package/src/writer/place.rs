//! Puts what an export made into its place.

use std::{
    fs::{self, File, TryLockError},
    io::{self, BufWriter, Seek, Write},
    path::{Path, PathBuf},
};

use super::{
    Signer, WriteError, at,
    output::{create, folders, set_modified},
    sums::is_as_it_was,
};
use crate::{
    checksums::Sha256Sum,
    manifest::{CHECKSUMS, FileEntry, MANIFEST, Manifest, ManifestError, OnDisk, SIGNATURE, STAGING},
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
    let package = match Package::open(dir) {
        Ok(package) => Some(package),
        Err(OpenError::Io { path, error }) => return Err(at(path.display())(error)),
        Err(_) => None,
    };
    let on_disk = package.as_ref().map(|it| it.manifest().on_disk()).unwrap_or_default();
    let found = strangers(dir, &on_disk).map_err(at(dir.display()))?;
    let stranger = found.iter().find(|it| it.is_damage()).map(|it| PathBuf::from(it.to_string()));
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
        is_as_it_was(&dir.join(name.as_ref()), &entry)
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

/// Makes the new package the one in the folder. Everything that it consists of is on the disk already. Returns the SHA-256
/// of its manifest. `sign` makes the text of the signature from that of the manifest.
pub(super) fn commit(
    dir: &Path,
    manifest: &Manifest,
    sign: Option<&Signer<'_>>,
) -> Result<Sha256Sum, WriteError> {
    let staging = dir.join(STAGING);
    let part = staging.join(format!("{MANIFEST}.part"));
    let failed = || at(part.display());
    let mut file = create(&part).and_then(|it| it.set_len(0).map(|()| it)).map_err(failed())?;
    let sum = manifest.write(&file).map_err(|error| match error {
        ManifestError::Io(error) => failed()(error),
        error => error.into(),
    })?;
    file.sync_all().map_err(failed())?;
    if let Some(sign) = sign {
        file.rewind().map_err(failed())?;
        let signature = sign(&mut file).map_err(at("the signature"))?;
        store(&staging, SIGNATURE, std::iter::once(signature))?;
    }
    store(&staging, CHECKSUMS, manifest.checksum_lines(sum))?;
    // From here on the next run would put everything in place, too.
    rename(&part, &staging.join(MANIFEST))?;
    sync(&staging)?;
    finish(dir, manifest)?;
    Ok(sum)
}

/// Puts the files of an export in place that ended before it could do so. Does nothing if there is none.
pub(super) fn finish_pending(dir: &Path) -> Result<(), WriteError> {
    let path = dir.join(STAGING).join(MANIFEST);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(at(path.display()))?,
    };
    finish(dir, &Manifest::read(file)?.0)
}

fn finish(dir: &Path, manifest: &Manifest) -> Result<(), WriteError> {
    let staging = dir.join(STAGING);
    for name in [SIGNATURE, CHECKSUMS] {
        remove(&dir.join(name))?;
    }
    rename(&dir.join(MANIFEST), &staging.join(OLD_MANIFEST))?;
    let on_disk = manifest.on_disk();
    for name in on_disk.keys() {
        rename(&staging.join("files").join(name.as_ref()), &dir.join(name.as_ref()))?;
    }
    if let Some(parts) = &manifest.parts {
        for name in on_disk.keys().filter(|it| it.starts_with("parts/")) {
            let path = dir.join(name.as_ref());
            let dated = File::open(&path).and_then(|it| set_modified(&it, parts.modified_at));
            dated.map_err(at(path.display()))?;
        }
    }
    remove_old(dir, &staging.join(OLD_MANIFEST), &on_disk)?;
    drop(on_disk);
    sync_folders(dir)?;
    for name in [SIGNATURE, CHECKSUMS] {
        rename(&staging.join(name), &dir.join(name))?;
    }
    sync(dir)?;
    // A copy, because the one in the staging folder says that this is not complete until the folder is gone.
    copy(&staging.join(MANIFEST), dir, MANIFEST)?;
    remove(&staging)?;
    sync(dir)
}

/// Writes a file in one step: it is there as a whole or not at all.
fn store(dir: &Path, name: &str, lines: impl Iterator<Item = String>) -> Result<(), WriteError> {
    in_one_step(dir, name, |file| {
        let mut to = BufWriter::new(file);
        lines.into_iter().try_for_each(|it| to.write_all(it.as_bytes()))?;
        to.flush()
    })
}

/// Copies a file in one step.
fn copy(from: &Path, dir: &Path, name: &str) -> Result<(), WriteError> {
    in_one_step(dir, name, |mut file| io::copy(&mut File::open(from)?, &mut file).map(drop))
}

fn in_one_step(dir: &Path, name: &str, fill: impl FnOnce(&File) -> io::Result<()>) -> Result<(), WriteError> {
    let (path, part) = (dir.join(name), dir.join(format!("{name}.part")));
    let write = || {
        let to = create(&part)?;
        to.set_len(0)?;
        fill(&to)?;
        to.sync_all()?;
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
fn remove_old(dir: &Path, old_manifest: &Path, keep: &OnDisk<'_>) -> Result<(), WriteError> {
    let Ok(file) = File::open(old_manifest) else { return Ok(()) };
    let (old, _) = Manifest::read(file)?;
    for name in old.on_disk().into_keys().filter(|it| !keep.contains_key(it)) {
        let path = dir.join(name.as_ref());
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
