//! A file of a fixed size that is written without system calls: its blocks are allocated when it is made, and it is mapped into
//! memory.
//!
//! What is written is in the page cache at once, as after `write(2)`: other processes read it, and it survives the end of this
//! one, however that happens. It is on the disk after [`Mapped::finish`].
//!
//! This is the only crate of the project with `unsafe` code: one call.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, fallocate, fstatfs};

/// File systems on which a write to allocated blocks can't find the disk full: they write in place. Copy-on-write file systems
/// need new blocks for each write, and would end the process with SIGBUS. Numbers: `linux/magic.h` and `xfs/libxfs/xfs_format.h`.
const IN_PLACE: [(&str, u64); 3] = [("ext4", 0xef53), ("xfs", 0x5846_5342), ("tmpfs", 0x0102_1994)];

/// A mapped file. Only its owner writes to it.
#[derive(Debug)]
pub struct Mapped {
    file: File,
    map: MmapMut,
}

impl Mapped {
    /// Makes a file of `size` zero bytes that are allocated on the disk.
    ///
    /// # Errors
    /// The file is there already; the disk is full; its file system can't do this (`Unsupported`). There is no new file then.
    pub fn create(path: &Path, size: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Self::allocate(file, size).inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    }

    fn allocate(file: File, size: usize) -> io::Result<Self> {
        let kind = fstatfs(&file)?.f_type as u64;
        if !IN_PLACE.iter().any(|(_, magic)| *magic == kind) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this file system does not write in place",
            ));
        }
        fallocate(&file, FallocateFlags::empty(), 0, size as u64)?;
        let map = map(&file, size)?;
        Ok(Self { file, map })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Number of bytes.
    pub fn size(&self) -> usize {
        self.map.len()
    }

    /// Writes `bytes` at the offset `at`. Returns whether they fit; if not, nothing is written.
    #[must_use]
    pub fn write_at(&mut self, at: usize, bytes: &[u8]) -> bool {
        let place = at.checked_add(bytes.len()).and_then(|end| self.map.get_mut(at..end));
        place.is_some_and(|place| {
            place.copy_from_slice(bytes);
            true
        })
    }

    /// Cuts the file to `len` bytes and waits until they are on the disk. It blocks.
    ///
    /// # Errors
    /// The disk can't be written.
    pub fn finish(self, len: usize) -> io::Result<()> {
        drop(self.map);
        self.file.set_len(len as u64)?;
        self.file.sync_data()
    }
}

#[expect(unsafe_code, reason = "the one call for which this crate exists")]
fn map(file: &File, size: usize) -> io::Result<MmapMut> {
    // SAFETY: A slice of a shared mapping is sound as long as nobody else changes the bytes. The file is new (`create_new`), so
    // this process is the only one that has it open; a program that opens it later by its name only reads it: it belongs to
    // this user's private directory. If somebody with the same rights cuts it off all the same, the kernel ends this process
    // at the next write (SIGBUS) before it could see anything that is not there. Blocks that are allocated can't be missing
    // when a page is written (`IN_PLACE`).
    unsafe { MmapOptions::new().len(size).map_mut(file) }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::ErrorKind};

    use super::*;

    fn dir() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn what_is_written_is_read_at_once_and_the_end_is_cut_off() {
        let dir = dir();
        let path = dir.path().join("a");
        let mut mapped = Mapped::create(&path, 8192).unwrap();
        assert!(mapped.write_at(0, b"one") && mapped.write_at(4094, b"four"));
        let read = fs::read(&path).unwrap();
        assert_eq!(
            (read.len(), &read[..3], &read[4094..4098], read[8191]),
            (8192, &b"one"[..], &b"four"[..], 0)
        );
        mapped.finish(4098).unwrap();
        assert_eq!(fs::read(&path).unwrap().len(), 4098);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let dir = dir();
        let path = dir.path().join("a");
        let mut mapped = Mapped::create(&path, 10).unwrap();
        assert!(mapped.write_at(7, b"end"));
        assert!(!mapped.write_at(8, b"end") && !mapped.write_at(usize::MAX, b"end"));
        assert_eq!((mapped.size(), fs::read(&path).unwrap()), (10, b"\0\0\0\0\0\0\0end".to_vec()));
    }

    #[test]
    fn a_file_that_is_there_is_not_touched() {
        let dir = dir();
        let path = dir.path().join("a");
        fs::write(&path, "mine").unwrap();
        assert_eq!(Mapped::create(&path, 10).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn no_file_is_left_where_it_can_not_be_allocated() {
        let dir = dir();
        let path = dir.path().join("a");
        assert!(Mapped::create(&path, 1 << 60).is_err());
        assert!(!path.exists());
    }
}
