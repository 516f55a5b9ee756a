//! The journal of an export: which files are on the disk for certain, and how far the one in the making is.
//!
//! A line is written after the disk has everything that it says, so an export that was interrupted, even by unplugging the
//! disk, can rely on it. That is done beside the copying, every 32 MiB: at most twice that is lost.
//!
//! The journal lies on the disk that is carried around. A line begins with its HMAC-SHA256 under a key of the gateway,
//! because an export goes on with the state of a hasher: with a forged one it would sign content that it has never read.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
    thread::JoinHandle,
};

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::sums::Ident;
use crate::{
    checksums::{Sha256Sum, hex},
    contents::Image,
    manifest::FileEntry,
    path::PackagePath,
};

/// Bytes between two checkpoints.
const EVERY: u64 = 32 << 20;
/// Most lines between two checkpoints. Many small files make many lines and few bytes.
const MOST_LINES: usize = 8192;
/// Longest line that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// Hexadecimal digits of an HMAC.
const MAC: usize = 64;

/// The key of a journal.
#[derive(Debug, Clone)]
pub(crate) struct Key(Hmac<Sha256>);

impl Key {
    /// Derives the key from a secret. Without one the HMAC is a mere checksum.
    pub(crate) fn new(secret: Option<&SecretString>) -> io::Result<Self> {
        let secret = secret.map(ExposeSecret::expose_secret).unwrap_or_default();
        let mut mac = Hmac::new_from_slice(secret.as_bytes()).map_err(io::Error::other)?;
        mac.update(b"gantry package journal\0");
        Ok(Self(mac))
    }

    fn of(&self, line: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(line);
        mac
    }

    /// Writes a line: the HMAC in hexadecimal digits, a space, and the JSON.
    pub(crate) fn write(&self, line: &Line, to: &mut Vec<u8>) -> io::Result<()> {
        let json = serde_json::to_vec(line)?;
        let mac = self.of(&json).finalize().into_bytes();
        to.extend_from_slice(hex(&mac).as_bytes());
        to.push(b' ');
        to.extend_from_slice(&json);
        to.push(b'\n');
        Ok(())
    }

    /// Reads a line with its line break. `None` if this key did not write it, or not all of it.
    fn read(&self, text: &[u8]) -> Option<Line> {
        let (mac, json) = text.strip_suffix(b"\n")?.split_at_checked(MAC + 1)?;
        let mac: Sha256Sum = std::str::from_utf8(mac).ok()?.strip_suffix(' ')?.parse().ok()?;
        self.of(json).verify_slice(&mac.0).ok()?;
        serde_json::from_slice(json).ok()
    }
}

/// A line of the journal, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Line {
    /// The first line: how contents are stored.
    Begin { part_size: Option<u64> },
    /// A file is complete.
    File { path: PackagePath, entry: FileEntry },
    /// A part is complete.
    Part { index: u64, sha256: Sha256Sum },
    /// What earlier lines say about the parts from this offset on is no longer so: an export begins to write there.
    Rewritten { from: u64 },
    /// All blobs of an image are complete.
    Image(Image),
    /// The copy of a file has come so far.
    Partial(Partial),
}

/// A copy that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Partial {
    pub(crate) path: PackagePath,
    pub(crate) source: Ident,
    /// Bytes of the file that are on the disk.
    pub(crate) done: u64,
    /// State of the file's hasher at that point.
    pub(crate) hasher: String,
    /// Where the file begins in the parts.
    pub(crate) at: Option<u64>,
    /// State of the hasher of the part that is being written.
    pub(crate) part_hasher: Option<String>,
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Arc<File>,
    key: Key,
    /// Lines that are true once the disk has everything written so far.
    pending: Vec<Line>,
    bytes: u64,
    /// Whether files got names, or their last bytes, since the last checkpoint: then one file is not all there is to store.
    has_new_names: bool,
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl Journal {
    /// Opens the journal at `path` to add lines to its first `length` bytes, those that could be read.
    pub(crate) fn open(path: &Path, length: u64, key: Key) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.set_len(length)?;
        let (file, pending) = (Arc::new(file), Vec::new());
        Ok(Self { file, key, pending, bytes: 0, has_new_names: true, syncing: None })
    }

    /// Adds a line. It is written once the disk has everything that was written before it.
    pub(crate) fn add(&mut self, line: Line) {
        self.has_new_names |= !matches!(line, Line::Partial(_));
        self.pending.push(line);
    }

    /// Says that a file was begun.
    pub(crate) fn begun(&mut self) {
        self.has_new_names = true;
    }

    /// Counts bytes that were written.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Returns whether it is time for [`Self::checkpoint`].
    pub(crate) fn is_due(&self) -> bool {
        self.bytes >= EVERY || self.pending.len() >= MOST_LINES
    }

    /// Lets the disk store everything written so far, and then the lines that are pending. Waits for the checkpoint before
    /// this one only. In the middle of a large file, which is `open`, that is all there is to store; what other programs have
    /// written need not wait for the disk then.
    ///
    /// # Errors
    /// The checkpoint before failed. Nothing after it counts as stored.
    pub(crate) fn checkpoint(&mut self, open: Option<&File>) -> io::Result<()> {
        self.wait()?;
        let open = open.filter(|_| !self.has_new_names).map(File::try_clone).transpose()?;
        (self.bytes, self.has_new_names) = (0, false);
        let mut lines = Vec::new();
        for line in self.pending.drain(..) {
            self.key.write(&line, &mut lines)?;
        }
        let file = Arc::clone(&self.file);
        self.syncing = Some(std::thread::spawn(move || store(&file, open.as_ref(), &lines)));
        Ok(())
    }

    /// Stores everything and waits for it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.checkpoint(None)?;
        self.wait()
    }

    /// Does not wait for the checkpoint that is under way.
    pub(crate) fn forget(&mut self) {
        self.syncing = None;
    }

    fn wait(&mut self) -> io::Result<()> {
        let Some(thread) = self.syncing.take() else { return Ok(()) };
        thread.join().map_err(|_| io::Error::other("the thread that writes the journal died"))?
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // The lines are of use for the next run; an error then just costs a part of the work.
        let _ = self.wait();
    }
}

/// Lets the disk store the open file, or the file system everything (files of a hub cache are many and small, so not each by
/// itself), and then writes the lines.
fn store(file: &File, open: Option<&File>, lines: &[u8]) -> io::Result<()> {
    match open {
        Some(open) => open.sync_data()?,
        None => rustix::fs::syncfs(file)?,
    }
    if lines.is_empty() {
        return Ok(());
    }
    (&*file).write_all(lines)?;
    file.sync_data()
}

/// Reads the lines of a journal, up to one that a crash cut or that another key wrote. Returns their length, too, in bytes.
pub(crate) fn read(path: &Path, key: &Key) -> io::Result<(Vec<Line>, u64)> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        file => file?,
    };
    let (mut from, mut lines, mut length) = (BufReader::new(file), Vec::new(), 0);
    loop {
        let mut text = Vec::new();
        (&mut from).take(LONGEST).read_until(b'\n', &mut text)?;
        let Some(line) = key.read(&text) else { return Ok((lines, length)) };
        lines.push(line);
        length += text.len() as u64;
    }
}
