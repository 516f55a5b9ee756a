//! Reads the entries of a tar archive that may come from anybody. Nothing of it is ever a file of this machine: names only
//! lead from one entry to another.

use std::{
    cell::Cell,
    io::{self, Read},
};

use tar::{Archive, EntryType};

use super::ImageError;

/// Most entries of an archive: `docker save` writes four for each layer.
const MOST_ENTRIES: usize = 50_000;
/// Longest name of an entry or target of a link, in bytes. `docker save` needs 77.
const LONGEST_NAME: usize = 255;
/// Most bytes between two contents, headers with long names included.
const LONGEST_HEADER: u64 = 256 << 10;

/// An entry of an archive, without the folders.
pub(super) enum Entry<'a> {
    File {
        name: String,
        content: Content<'a>,
    },
    /// A symbolic link to another entry of the archive.
    Link {
        name: String,
        target: String,
    },
}

/// Calls `each` for every entry of the archive but its folders. The content of a file must be read to its end.
///
/// # Errors
/// Errors of `each`; the archive is not readable or not complete; an entry has a name that leads out of the archive, or is
/// neither a file, a folder nor a symbolic link.
pub(super) fn for_each_entry(
    archive: &mut dyn Read,
    mut each: impl FnMut(Entry<'_>) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let state = State { left: Cell::new(None), ended: Cell::new(false) };
    let mut archive = Archive::new(Guard { inner: archive, state: &state });
    let mut entries = archive.entries().map_err(ImageError::Read)?;
    for count in 0.. {
        state.left.set(Some(LONGEST_HEADER));
        let Some(entry) = entries.next() else { break };
        state.left.set(None);
        if count == MOST_ENTRIES {
            return Err(ImageError::TooManyEntries(MOST_ENTRIES));
        }
        let entry = entry
            .map_err(|error| if state.ended.get() { ImageError::Cut } else { ImageError::Read(error) })?;
        if let Some(entry) = checked(entry)? {
            each(entry)?;
        }
    }
    // The end of an archive is marked, so an archive that merely ends was cut.
    if state.ended.get() { Err(ImageError::Cut) } else { Ok(()) }
}

/// Returns the entry after a look at its name and kind; `None` for a folder.
fn checked<'a>(entry: tar::Entry<'a, Guard<'a>>) -> Result<Option<Entry<'a>>, ImageError> {
    let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let refused = |why| Err(ImageError::entry(&raw, why));
    let kind = entry.header().entry_type();
    if kind == EntryType::Directory && matches!(raw.as_str(), "." | "./") {
        return Ok(None);
    }
    let Some(name) = inside("", &raw) else {
        return refused("has a name that leads out of it, or is too long");
    };
    match kind {
        EntryType::Directory => Ok(None),
        EntryType::Regular => {
            let size = entry.size();
            let content = Content { inner: Box::new(entry), left: size, size, cut: false };
            Ok(Some(Entry::File { name, content }))
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default();
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            match inside(folder, &String::from_utf8_lossy(&target)) {
                Some(target) => Ok(Some(Entry::Link { name, target })),
                None => refused("is a link that leads out of it"),
            }
        }
        _ => refused("is neither a file, a folder nor a symbolic link"),
    }
}

/// Returns the name without `.` and `..` of what `path` means in the folder `folder`; `None` if it leads out of the archive,
/// has a character that no name needs, or is too long.
pub(super) fn inside(folder: &str, path: &str) -> Option<String> {
    let odd = |it: char| it.is_control() || it == char::REPLACEMENT_CHARACTER;
    if path.is_empty() || path.starts_with('/') || path.len() > LONGEST_NAME || path.contains(odd) {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // A name has no reason to go up; a link does it once.
            ".." if folder.is_empty() => return None,
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let name = parts.join("/");
    (!name.is_empty() && name.len() <= LONGEST_NAME).then_some(name)
}

/// The content of a file. Its end is an error if bytes are missing.
pub(super) struct Content<'a> {
    inner: Box<dyn Read + 'a>,
    left: u64,
    pub(super) size: u64,
    /// The archive ended before the content did.
    pub(super) cut: bool,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        if n == 0 && self.left > 0 && !buffer.is_empty() {
            self.cut = true;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(n as u64);
        Ok(n)
    }
}

struct State {
    /// Bytes that may be read before the next content begins; `None` within a content.
    left: Cell<Option<u64>>,
    /// The end of the archive was seen.
    ended: Cell<bool>,
}

/// Bounds what is read between two contents: the reader of the archive holds all headers of an entry in memory.
struct Guard<'a> {
    inner: &'a mut dyn Read,
    state: &'a State,
}

impl Read for Guard<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let left = self.state.left.get();
        let most =
            left.map_or(buffer.len(), |it| buffer.len().min(usize::try_from(it).unwrap_or(usize::MAX)));
        if most == 0 {
            return Err(io::Error::other("the headers of an entry are too long"));
        }
        let n = self.inner.read(&mut buffer[..most])?;
        self.state.left.set(left.map(|it| it - n as u64));
        self.state.ended.set(n == 0);
        Ok(n)
    }
}
