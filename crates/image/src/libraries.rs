//! Finds the shared libraries that a program needs, and where its loader looks for them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ImageError;

/// Files and links to put into an image, by their absolute path there.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    pub files: BTreeMap<String, PathBuf>,
    pub links: BTreeMap<String, String>,
    /// For `LD_LIBRARY_PATH`.
    pub folders: Vec<String>,
}

/// Returns the libraries of `exe`: from the memory map if `exe` is the running program, else as its loader lists them.
/// A static program has none.
pub(crate) fn of(exe: &Path) -> Result<Libraries, ImageError> {
    let unknown = || ImageError::Libraries(exe.to_owned());
    let Some(loader) = interpreter(exe)? else { return Ok(Libraries::default()) };
    let same = |a: &Path| a.canonicalize().ok().zip(exe.canonicalize().ok()).is_some_and(|(a, b)| a == b);
    let found = if same(Path::new("/proc/self/exe")) { mapped(exe)? } else { listed(exe, &loader)? };
    if found.is_empty() {
        return Err(unknown());
    }
    let mut libraries = Libraries::default();
    for path in found {
        let unreadable = |source| ImageError::Read { path: path.clone(), source };
        let real = path.canonicalize().map_err(unreadable)?;
        let place = real.display().to_string();
        // Programs load a library by its soname, which is often a link beside the file.
        if let Some(folder) = real.parent() {
            for entry in fs::read_dir(folder).map_err(unreadable)?.flatten() {
                let link = entry.path();
                if link.is_symlink() && link.canonicalize().is_ok_and(|target| target == real) {
                    libraries.links.insert(link.display().to_string(), place.clone());
                }
            }
            let folder = folder.display().to_string();
            if !libraries.folders.contains(&folder) {
                libraries.folders.push(folder);
            }
        }
        libraries.files.insert(place, real);
    }
    libraries.folders.sort();
    // The kernel starts the loader by the path in the program, so the image has the loader's file at this path even if
    // it is a link on this machine.
    let real = Path::new(&loader)
        .canonicalize()
        .map_err(|source| ImageError::Read { path: loader.clone().into(), source })?;
    libraries.links.remove(&loader);
    libraries.files.insert(loader, real);
    Ok(libraries)
}

/// Returns the file-backed libraries in this process, its loader included.
fn mapped(exe: &Path) -> Result<Vec<PathBuf>, ImageError> {
    let maps = Path::new("/proc/self/maps");
    let text =
        fs::read_to_string(maps).map_err(|source| ImageError::Read { path: maps.to_owned(), source })?;
    let mut found: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.starts_with('/') && is_library(path))
        .map(PathBuf::from)
        .filter(|path| path != exe)
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Returns the libraries that the program's own loader lists.
fn listed(exe: &Path, loader: &str) -> Result<Vec<PathBuf>, ImageError> {
    let unreadable = |source| ImageError::Read { path: exe.to_owned(), source };
    let output = Command::new(loader).arg("--list").arg(exe).output().map_err(unreadable)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/') && is_library(word)))
        .map(PathBuf::from)
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Returns whether it is a library, such as `libc.so.6`, `libx.so`, `ld-linux-x86-64.so.2`.
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    Path::new(name).extension().is_some_and(|extension| extension == "so") || name.contains(".so.")
}

/// Returns the loader that a program names (`PT_INTERP`); `None` for a static program.
///
/// The ELF header is parsed here, for 64-bit little-endian files only: images are made for no others.
pub(crate) fn interpreter(exe: &Path) -> Result<Option<String>, ImageError> {
    const INTERP: u32 = 3;
    let unreadable = |source| ImageError::Read { path: exe.to_owned(), source };
    let unknown = || ImageError::Libraries(exe.to_owned());
    let mut file = File::open(exe).map_err(unreadable)?;
    let mut head = [0; 64];
    file.read_exact(&mut head).map_err(|_| unknown())?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Err(unknown());
    }
    let number = |bytes: &[u8], at: usize, width: usize| {
        bytes
            .get(at..at + width)
            .map(|bytes| bytes.iter().rev().fold(0, |n: u64, byte| (n << 8) | u64::from(*byte)))
    };
    let (Some(table), Some(size), Some(count)) =
        (number(&head, 32, 8), number(&head, 54, 2), number(&head, 56, 2))
    else {
        return Err(unknown());
    };
    let mut headers = vec![0; (size * count) as usize];
    file.seek(SeekFrom::Start(table)).map_err(unreadable)?;
    file.read_exact(&mut headers).map_err(unreadable)?;
    for header in headers.chunks(size.max(1) as usize) {
        if number(header, 0, 4) != Some(u64::from(INTERP)) {
            continue;
        }
        let (Some(offset), Some(length)) = (number(header, 8, 8), number(header, 32, 8)) else {
            return Err(unknown());
        };
        let mut name = vec![0; length.min(4096) as usize];
        file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
        file.read_exact(&mut name).map_err(unreadable)?;
        let name = String::from_utf8(name).map_err(|_| unknown())?;
        return Ok(Some(name.trim_end_matches('\0').to_owned()));
    }
    Ok(None)
}
