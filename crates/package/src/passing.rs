//! Files that are read or written once. They may be larger than memory, and must not push out of the page cache what the machine
//! works with: the weights of engines, the database.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut, Read, Write},
};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

/// `RWF_DONTCACHE` of Linux 6.14: the kernel drops the pages that a call brought into the cache, after a read at once, after
/// a write when the disk has them. What was in the cache before stays there.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// Stands for the position of the file itself, as −1 does for the kernel.
const HERE: u64 = u64::MAX;

/// A file whose bytes only pass through.
pub(crate) struct Passing<'a>(pub(crate) &'a File);

/// Does it in the usual way where the kernel or the file system can't leave the cache alone.
fn or_cached(done: Result<usize, Errno>, cached: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    match done {
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => cached(),
        done => Ok(done?),
    }
}

impl Read for Passing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.0;
        or_cached(preadv2(file, &mut [IoSliceMut::new(buffer)], HERE, DONT_CACHE), || file.read(buffer))
    }
}

impl Write for Passing<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut file = self.0;
        or_cached(pwritev2(file, &[IoSlice::new(buffer)], HERE, DONT_CACHE), || file.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::OpenOptions,
        io::{Seek, SeekFrom},
    };

    use super::*;

    #[test]
    fn bytes_go_where_the_file_stands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights");
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        Passing(&file).write_all(b"first").unwrap();
        file.seek(SeekFrom::Start(8)).unwrap();
        Passing(&file).write_all(b"second").unwrap();
        assert_eq!(file.stream_position().unwrap(), 14);
        file.seek(SeekFrom::Start(3)).unwrap();
        let mut rest = String::new();
        Passing(&file).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "st\0\0\0second");
        assert_eq!(Passing(&file).read(&mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn a_file_system_without_such_calls_is_read_and_written_all_the_same() {
        let mut stat = String::new();
        Passing(&File::open("/proc/self/stat").unwrap()).read_to_string(&mut stat).unwrap();
        assert!(stat.starts_with(&format!("{} (", std::process::id())), "{stat}");
        let nowhere = OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert_eq!(Passing(&nowhere).write(b"bytes").unwrap(), 5);
        let read_only = File::open("/dev/null").unwrap();
        assert!(Passing(&read_only).write(b"bytes").is_err());
    }
}
