//! A reader that knows how much of the file is left, and checks that before it allocates memory or reads.

use std::io::{self, Read, Seek, SeekFrom};

use super::{
    MAX_READ_BYTES,
    error::{GgufError, Part},
};

/// Size of the first read of a file, and of the first read after a seek. A header without a tokenizer fits in it.
const FIRST_CHUNK: usize = 32 * 1024;
/// Size of the buffer, which is also the most that a single [`Cursor::take`] can return.
pub(super) const BUFFER: usize = 256 * 1024;
/// Longest text that is read through rather than skipped by a seek, in bytes.
const SHORT_TEXT: usize = 64 * 1024;

pub(super) struct Cursor<R> {
    inner: R,
    /// Offset in the file from which `inner` reads next.
    inner_at: u64,
    buffer: Vec<u8>,
    /// `buffer[start..end]` holds the bytes of the file from offset `at`.
    start: usize,
    end: usize,
    at: u64,
    file_len: u64,
    /// Bytes read so far.
    read: u64,
    chunk: usize,
    /// The part of the header that is being read, for error texts.
    pub(super) part: Part,
    /// Whether counts and lengths have 32 bits, as in version 1.
    pub(super) narrow: bool,
}

impl<R: Read + Seek> Cursor<R> {
    pub(super) fn new(inner: R, file_len: u64) -> Self {
        Self {
            inner,
            // The offset is unknown, so the first fill seeks.
            inner_at: u64::MAX,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            at: 0,
            file_len,
            read: 0,
            chunk: FIRST_CHUNK,
            part: Part::Counts,
            narrow: false,
        }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn left(&self) -> u64 {
        self.file_len.saturating_sub(self.at)
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn truncated(&self, needs: u64) -> GgufError {
        GgufError::TruncatedHeader { part: self.part, at: self.at, needs, left: self.left() }
    }

    /// Makes the next `len` bytes available in the buffer.
    fn fill(&mut self, len: usize) -> Result<(), GgufError> {
        if self.end.saturating_sub(self.start) >= len {
            return Ok(());
        }
        if len as u64 > self.left() || len > BUFFER {
            return Err(self.truncated(len as u64));
        }
        let have = self.end.saturating_sub(self.start);
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, have);
        let from = self.at.saturating_add(have as u64);
        if from != self.inner_at {
            self.inner.seek(SeekFrom::Start(from)).map_err(GgufError::Io)?;
            self.inner_at = from;
        }
        let want = self.chunk.clamp(len, BUFFER);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        while self.end < len {
            let Some(space) = self.buffer.get_mut(self.end..) else { return Err(self.truncated(len as u64)) };
            match self.inner.read(space) {
                // The file is shorter than the caller said: it shrank in the meantime.
                Ok(0) => return Err(self.truncated(len as u64)),
                Ok(n) => {
                    self.end = self.end.saturating_add(n).min(self.buffer.len());
                    self.inner_at = self.inner_at.saturating_add(n as u64);
                    self.read = self.read.saturating_add(n as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(GgufError::Io(error)),
            }
        }
        if self.read > MAX_READ_BYTES {
            return Err(GgufError::HeaderTooLarge { limit: MAX_READ_BYTES });
        }
        self.chunk = self.chunk.saturating_mul(2).min(BUFFER);
        Ok(())
    }

    /// Returns up to `len` bytes from here, without moving; fewer only at the end of the file.
    pub(super) fn peek(&mut self, len: usize) -> Result<&[u8], GgufError> {
        let len = usize::try_from(self.left()).unwrap_or(usize::MAX).min(len);
        self.fill(len)?;
        Ok(self.buffered().get(..len).unwrap_or_default())
    }

    /// Returns the next `len` bytes and moves on; `len` is at most [`BUFFER`].
    pub(super) fn take(&mut self, len: usize) -> Result<&[u8], GgufError> {
        self.fill(len)?;
        let from = self.start;
        self.start = self.start.saturating_add(len);
        self.at = self.at.saturating_add(len as u64);
        Ok(self.buffer.get(from..self.start).unwrap_or_default())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut out = [0; N];
        let bytes = self.take(N)?;
        if bytes.len() == N {
            out.copy_from_slice(bytes);
        }
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, GgufError> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, GgufError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a count, a length or a dimension.
    pub(super) fn count(&mut self) -> Result<u64, GgufError> {
        if self.narrow { self.u32().map(u64::from) } else { self.u64() }
    }

    /// Skips `count` texts, each of which follows its length. Nearly all of a header consists of these: a tokenizer
    /// with 150,000 tokens has some 450,000 texts in 7 MB. They have to be read, because nothing else says where the
    /// next one begins.
    pub(super) fn skip_texts(&mut self, count: u64) -> Result<(), GgufError> {
        let mut left = count;
        loop {
            let passed = if self.narrow {
                self.pass_texts(left, |it: [u8; 4]| u32::from_le_bytes(it).into())
            } else {
                self.pass_texts(left, u64::from_le_bytes)
            };
            left = left.saturating_sub(passed);
            if left == 0 {
                return Ok(());
            }
            // The text reaches beyond the buffer, or beyond the file.
            let len = self.count()?;
            match usize::try_from(len) {
                // For a short text, reading on is cheaper than seeking.
                Ok(len) if len <= SHORT_TEXT => _ = self.take(len)?,
                _ => self.skip(len)?,
            }
            left = left.saturating_sub(1);
        }
    }

    /// Skips those of the next `count` texts that the buffer holds completely. Returns how many they are.
    fn pass_texts<const N: usize>(&mut self, count: u64, length: fn([u8; N]) -> u64) -> u64 {
        let buffered = self.buffered();
        let mut rest = buffered;
        let mut passed = 0;
        while passed < count
            && let Some((prefix, after)) = rest.split_first_chunk::<N>()
            && let Ok(len) = usize::try_from(length(*prefix))
            && let Some(after) = after.get(len..)
        {
            rest = after;
            passed += 1;
        }
        let by = buffered.len().saturating_sub(rest.len());
        self.start = self.start.saturating_add(by);
        self.at = self.at.saturating_add(by as u64);
        passed
    }

    /// Skips `len` bytes without reading them.
    pub(super) fn skip(&mut self, len: u64) -> Result<(), GgufError> {
        if len > self.left() {
            return Err(self.truncated(len));
        }
        self.at = self.at.saturating_add(len);
        match usize::try_from(len) {
            Ok(len) if len <= self.end.saturating_sub(self.start) => {
                self.start = self.start.saturating_add(len);
            }
            _ => {
                (self.start, self.end) = (0, 0);
                self.chunk = FIRST_CHUNK;
            }
        }
        Ok(())
    }
}
