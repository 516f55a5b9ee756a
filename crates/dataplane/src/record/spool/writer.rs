//! Appends records to the segments of one thread. A segment is a file that is allocated and mapped before it is written, so that
//! a record costs no system call; where that can't be had, it is written as it grows.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gantry_mapped::Mapped;
use uuid::Uuid;

use super::{
    codec::{self, MAGIC, MAX_RECORD, RecordKind, RowRef, SEGMENT_HEAD},
    dir::{self, SegmentId},
};

/// Most bytes of a segment that is allocated before it is written. A thread with 10,000 requests a second fills five of them a
/// second; an idle one wastes no more than that until the segment is closed.
const ALLOCATED: u64 = 1 << 20;

/// Most bytes of finals kept in memory because they could not be written; beyond that the intent on disk is used as the
/// row.
const MAX_BACKLOG: usize = 8 << 20;

/// When a segment is closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentLimits {
    pub bytes: u64,
    pub age: Duration,
    /// Allocates segments before they are written, where the file system can.
    pub allocate: bool,
}

/// Writes the segments of one thread, which owns it. Nothing is created before the first record.
#[derive(Debug)]
pub(crate) struct Writer {
    dir: PathBuf,
    next: SegmentId,
    limits: SegmentLimits,
    open: Option<Segment>,
    buffer: Vec<u8>,
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    closed: Vec<Closed>,
    /// Finals that were written and not yet counted, see [`Writer::take_written`].
    written: u64,
}

#[derive(Debug)]
struct Segment {
    id: SegmentId,
    body: Body,
    /// Bytes that are written.
    len: u64,
    /// It is closed when it has as many.
    full: u64,
    since: Instant,
}

#[derive(Debug)]
enum Body {
    Allocated(Mapped),
    Growing(File),
}

/// A segment to which nothing is added any more.
#[derive(Debug)]
pub(crate) struct Closed(Segment);

impl Closed {
    /// Waits until it is on the disk. It blocks.
    ///
    /// # Errors
    /// The disk can't be written.
    pub(crate) fn sync(self) -> io::Result<()> {
        match self.0.body {
            Body::Allocated(mapped) => mapped.finish(self.0.len as usize),
            Body::Growing(file) => file.sync_data(),
        }
    }
}

impl Segment {
    fn create(dir: &Path, next: &mut SegmentId, limits: SegmentLimits) -> io::Result<Self> {
        let (id, path) = (*next, next.path(dir));
        let full = limits.bytes.min(ALLOCATED);
        let allocated = limits.allocate.then(|| Self::allocated(&path, full)).flatten();
        let (body, full) = match allocated {
            Some(body) => (body, full),
            None => (Self::growing(&path)?, limits.bytes),
        };
        next.seq += 1;
        Ok(Self { id, body, len: SEGMENT_HEAD as u64, full, since: Instant::now() })
    }

    /// `None` if the file system can't, or has less room than a whole segment takes.
    fn allocated(path: &Path, full: u64) -> Option<Body> {
        // The last record begins before `full`.
        let mut mapped = Mapped::create(path, full as usize + SEGMENT_HEAD + MAX_RECORD).ok()?;
        mapped.write_at(0, &head(SEGMENT_HEAD as u64)).then_some(Body::Allocated(mapped))
    }

    fn growing(path: &Path) -> io::Result<Body> {
        let mut file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
        if let Err(error) = file.write_all(&head(0)) {
            // Otherwise a full disk would collect an empty file for each attempt.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(Body::Growing(file))
    }

    fn file(&self) -> &File {
        match &self.body {
            Body::Allocated(mapped) => mapped.file(),
            Body::Growing(file) => file,
        }
    }

    /// Writes the file once more under its name, byte for byte, so that the reader goes on where it was. Returns that file.
    fn put_back(&self, dir: &Path) -> io::Result<File> {
        dir::make(dir)?;
        let bytes = match &self.body {
            Body::Allocated(mapped) => mapped.bytes().get(..self.len as usize).unwrap_or_default().to_vec(),
            Body::Growing(file) => {
                let mut bytes = vec![0; self.len as usize];
                file.read_exact_at(&mut bytes, 0)?;
                bytes
            }
        };
        let path = self.id.path(dir);
        // No reader sees a part of it: this is no name of a segment.
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes).and_then(|()| fs::rename(&temporary, &path)).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })?;
        Ok(file)
    }

    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let len = self.len + record.len() as u64;
        match &mut self.body {
            Body::Allocated(mapped) => {
                // The length comes last. A reader that sees it before the record finds that the checksum is wrong, and looks again.
                if !mapped.write_at(self.len as usize, record)
                    || !mapped.write_at(MAGIC.len(), &len.to_le_bytes())
                {
                    return Err(io::Error::new(
                        io::ErrorKind::StorageFull,
                        "a record is longer than its segment",
                    ));
                }
            }
            Body::Growing(file) => write_once(file, record)?,
        }
        self.len = len;
        Ok(())
    }

    /// Takes back what a failed [`Self::append`] left of its record. Returns whether more can be appended.
    fn take_back(&self) -> bool {
        match &self.body {
            Body::Allocated(_) => false,
            Body::Growing(file) => file.set_len(self.len).is_ok(),
        }
    }
}

impl Writer {
    pub(crate) fn new(dir: PathBuf, boot: Uuid, thread: u32, limits: SegmentLimits) -> Self {
        Self {
            dir,
            next: SegmentId { boot, thread, seq: 0 },
            limits,
            open: None,
            buffer: Vec::with_capacity(1024),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            closed: Vec::new(),
            written: 0,
        }
    }

    /// Writes the row as it would be if the gateway died now.
    ///
    /// # Errors
    /// The disk is full or broken; the request must not go to an engine.
    pub(crate) fn intent(&mut self, row: &RowRef<'_>) -> io::Result<()> {
        self.flush()?;
        self.append(RecordKind::Intent, row)
    }

    /// Writes the row of a request that has ended. If that fails it is kept in memory and written by a later
    /// [`Writer::flush`].
    ///
    /// # Errors
    /// As [`Writer::intent`]; nothing is lost yet, the caller only counts it.
    pub(crate) fn finish(&mut self, row: &RowRef<'_>) -> io::Result<()> {
        let result = self.flush().and_then(|()| self.append(RecordKind::Final, row));
        self.written += u64::from(result.is_ok());
        if result.is_err() && self.backlog_bytes < MAX_BACKLOG {
            let mut record = Vec::new();
            codec::encode(RecordKind::Final, row, &mut record);
            self.backlog_bytes += record.len();
            self.backlog.push_back(record);
        }
        result
    }

    /// Writes what could not be written before.
    ///
    /// # Errors
    /// They still can't be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(record) = self.backlog.pop_front() {
            if let Err(error) = self.write(&record) {
                self.backlog.push_front(record);
                return Err(error);
            }
            self.backlog_bytes -= record.len();
            self.written += 1;
        }
        Ok(())
    }

    /// Returns how many finals were written since the last call.
    pub(crate) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written)
    }

    /// Puts the open segment back if somebody removed, moved or replaced its file: it is closed then. Returns whether that was
    /// so. It blocks for a copy of at most one segment.
    ///
    /// # Errors
    /// It can't be written; it is kept open, for another try.
    pub(crate) fn keep(&mut self) -> io::Result<bool> {
        let Some(segment) = &self.open else { return Ok(false) };
        if dir::is_in_place(segment.file(), &segment.id.path(&self.dir))? {
            return Ok(false);
        }
        let file = segment.put_back(&self.dir)?;
        if let Some(segment) = self.open.take() {
            self.closed.push(Closed(Segment { body: Body::Growing(file), ..segment }));
        }
        Ok(true)
    }

    /// Closes the segment if it is old enough, or in any case if `now` is `None`, so that it can be shipped and
    /// deleted. Closed segments have to be synced by the caller, away from the request path: [`Writer::take_closed`].
    pub(crate) fn rotate(&mut self, now: Option<Instant>) {
        let old = |it: &Segment| now.is_none_or(|now| now.duration_since(it.since) >= self.limits.age);
        if self.open.as_ref().is_some_and(old) {
            self.close();
        }
    }

    pub(crate) fn take_closed(&mut self) -> Vec<Closed> {
        std::mem::take(&mut self.closed)
    }

    fn close(&mut self) {
        if let Some(segment) = self.open.take() {
            self.closed.push(Closed(segment));
        }
    }

    fn append(&mut self, kind: RecordKind, row: &RowRef<'_>) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        codec::encode(kind, row, &mut buffer);
        let result = self.write(&buffer);
        self.buffer = buffer;
        result
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|it| it.len >= it.full) {
            self.close();
        }
        let segment = match &mut self.open {
            Some(segment) => segment,
            none => none.insert(Segment::create(&self.dir, &mut self.next, self.limits)?),
        };
        let result = segment.append(record);
        // So that the next record can be read. If that fails, begin a new segment: the reader can handle a torn end.
        if result.is_err() && !segment.take_back() {
            self.close();
        }
        result
    }
}

/// Returns the first bytes of a segment.
fn head(len: u64) -> [u8; SEGMENT_HEAD] {
    let mut head = [0; SEGMENT_HEAD];
    head[..MAGIC.len()].copy_from_slice(MAGIC);
    head[MAGIC.len()..].copy_from_slice(&len.to_le_bytes());
    head
}

/// Writes a record with one system call: it is there completely or not at all when the process is killed.
fn write_once(file: &mut File, record: &[u8]) -> io::Result<()> {
    loop {
        match file.write(record) {
            Ok(n) if n == record.len() => return Ok(()),
            Ok(_) => {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "a record was written in part only"));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
