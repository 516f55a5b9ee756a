//! Appends records to the segments of one thread.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    codec::{self, MAGIC, RecordKind, RowRef},
    dir::SegmentId,
};

/// Most bytes of finals kept in memory because they could not be written; beyond that the intent on disk is used as the
/// row.
const MAX_BACKLOG: usize = 8 << 20;

/// When a segment is closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentLimits {
    pub bytes: u64,
    pub age: Duration,
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
    closed: Vec<File>,
}

#[derive(Debug)]
struct Segment {
    file: File,
    len: u64,
    since: Instant,
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
        }
        Ok(())
    }

    /// Closes the segment if it is old enough, or in any case if `now` is `None`, so that it can be shipped and
    /// deleted. Closed files have to be synced by the caller, away from the request path: [`Writer::take_closed`].
    pub(crate) fn rotate(&mut self, now: Option<Instant>) {
        let old = |it: &Segment| now.is_none_or(|now| now.duration_since(it.since) >= self.limits.age);
        if self.open.as_ref().is_some_and(old) {
            self.close();
        }
    }

    pub(crate) fn take_closed(&mut self) -> Vec<File> {
        std::mem::take(&mut self.closed)
    }

    fn close(&mut self) {
        if let Some(segment) = self.open.take() {
            self.closed.push(segment.file);
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
        if self.open.as_ref().is_some_and(|it| it.len >= self.limits.bytes) {
            self.close();
        }
        let segment = match &mut self.open {
            Some(segment) => segment,
            none => none.insert(Self::create(&self.dir, &mut self.next)?),
        };
        let result = write_once(&mut segment.file, record);
        match result {
            Ok(()) => segment.len += record.len() as u64,
            // Cut off the part that a full disk let through, so that the next record is readable. If that fails, begin
            // a new segment: the reader can handle a torn end.
            Err(_) if segment.file.set_len(segment.len).is_ok() => {}
            Err(_) => self.close(),
        }
        result
    }

    fn create(dir: &std::path::Path, next: &mut SegmentId) -> io::Result<Segment> {
        let path = next.path(dir);
        let mut file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        if let Err(error) = file.write_all(MAGIC) {
            // Otherwise a full disk would collect an empty file for each attempt.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        next.seq += 1;
        Ok(Segment { file, len: MAGIC.len() as u64, since: Instant::now() })
    }
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
