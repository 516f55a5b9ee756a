//! Reads one HTTP/1.1 answer from raw bytes, however they are split, and checks it. No I/O.
//!
//! The load generator must cost much less than what it measures, so the body is counted and checked as it comes and
//! never stored.

use anyhow::{Result, bail, ensure};
use memchr::{memchr_iter, memmem};

/// The end of a complete SSE answer of an OpenAI-compatible server.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Longest head accepted; a proxy that sends more is broken.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// An answer being read.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    state: State,
    /// Bytes of a head that came in more than one read; empty otherwise.
    head: Vec<u8>,
    status: u16,
    body_bytes: u64,
    is_sse: bool,
    closes: bool,
    n_events: u64,
    ends_with_newline: bool,
    tail: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Fixed {
        left: u64,
    },
    ChunkSize {
        size: u64,
        in_extension: bool,
    },
    ChunkData {
        left: u64,
    },
    /// The line end after a chunk's data.
    ChunkEnd,
    /// Trailer lines after the last chunk, up to an empty one.
    Trailer {
        line_is_empty: bool,
    },
    Done,
}

impl Reply {
    /// Resets the state for the next answer on the same connection.
    pub(crate) fn reset(&mut self) {
        let (mut head, mut tail) = (std::mem::take(&mut self.head), std::mem::take(&mut self.tail));
        head.clear();
        tail.clear();
        *self = Self { head, tail, ..Self::default() };
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the server will close the connection after this answer.
    pub(crate) fn closes(&self) -> bool {
        self.closes
    }

    /// Returns the number of SSE events seen so far, which is the number of blank lines. The mock sends only `data:`
    /// events.
    pub(crate) fn n_events(&self) -> u64 {
        self.n_events
    }

    /// Takes the next bytes of the connection.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head => self.feed_head(bytes)?,
                State::Fixed { left } => {
                    let (now, rest) = split(bytes, left);
                    self.payload(now);
                    let left = left - now.len() as u64;
                    self.state = if left == 0 { State::Done } else { State::Fixed { left } };
                    rest
                }
                State::ChunkSize { size, in_extension } => {
                    self.state = chunk_size(size, in_extension, bytes[0])?;
                    &bytes[1..]
                }
                State::ChunkData { left } => {
                    let (now, rest) = split(bytes, left);
                    self.payload(now);
                    let left = left - now.len() as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::ChunkData { left } };
                    rest
                }
                State::ChunkEnd => {
                    if bytes[0] == b'\n' {
                        self.state = State::ChunkSize { size: 0, in_extension: false };
                    }
                    &bytes[1..]
                }
                State::Trailer { line_is_empty } => {
                    self.state = match bytes[0] {
                        b'\n' if line_is_empty => State::Done,
                        b'\n' => State::Trailer { line_is_empty: true },
                        b'\r' => State::Trailer { line_is_empty },
                        _ => State::Trailer { line_is_empty: false },
                    };
                    &bytes[1..]
                }
                State::Done => bail!("{} bytes after the end of the answer", bytes.len()),
            };
        }
        Ok(())
    }

    /// Checks that the complete answer is what a client wanted: 200, a body, and for SSE its end.
    pub(crate) fn verify(&self, wants_sse: bool) -> Result<()> {
        ensure!(self.is_done(), "the answer was cut off");
        ensure!(self.status == 200, "status {}", self.status);
        ensure!(self.body_bytes > 0, "empty body");
        ensure!(self.is_sse == wants_sse, "wrong content type: SSE is {}", self.is_sse);
        ensure!(!wants_sse || self.tail == DONE, "the stream does not end with `[DONE]`");
        Ok(())
    }

    fn feed_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        if self.head.is_empty()
            && let Some(end) = memmem::find(bytes, b"\r\n\r\n")
        {
            self.parse_head(&bytes[..end])?;
            return Ok(&bytes[end + 4..]);
        }
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let head = std::mem::take(&mut self.head);
        let Some(end) = memmem::find(&head, b"\r\n\r\n") else {
            ensure!(head.len() < MAX_HEAD_BYTES, "head longer than {MAX_HEAD_BYTES} bytes");
            self.head = head;
            return Ok(&[]);
        };
        self.parse_head(&head[..end])?;
        Ok(&bytes[end + 4 - before..])
    }

    fn parse_head(&mut self, head: &[u8]) -> Result<()> {
        let head = std::str::from_utf8(head)?;
        let (first, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let Some(status) = first.strip_prefix("HTTP/1.1 ").and_then(|it| it.get(..3)) else {
            bail!("not an HTTP/1.1 status line: `{first}`");
        };
        self.status = status.parse()?;
        let (mut length, mut chunked) = (None, false);
        for (name, value) in fields.split("\r\n").filter_map(|it| it.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse::<u64>()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("content-type") {
                self.is_sse = value.starts_with("text/event-stream");
            } else if name.eq_ignore_ascii_case("connection") {
                self.closes = value.eq_ignore_ascii_case("close");
            }
        }
        self.state = match length {
            _ if chunked => State::ChunkSize { size: 0, in_extension: false },
            Some(0) => State::Done,
            Some(left) => State::Fixed { left },
            None => bail!("status {status} with neither `content-length` nor chunks"),
        };
        Ok(())
    }

    fn payload(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.body_bytes += bytes.len() as u64;
        if !self.is_sse {
            return;
        }
        for at in memchr_iter(b'\n', bytes) {
            let after_newline = if at == 0 { self.ends_with_newline } else { bytes[at - 1] == b'\n' };
            self.n_events += u64::from(after_newline);
        }
        self.ends_with_newline = *last == b'\n';
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(DONE.len())..]);
        let surplus = self.tail.len().saturating_sub(DONE.len());
        self.tail.drain(..surplus);
    }
}

fn split(bytes: &[u8], left: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len())))
}

fn chunk_size(size: u64, in_extension: bool, byte: u8) -> Result<State> {
    Ok(match (byte, (byte as char).to_digit(16)) {
        (b'\n', _) if size == 0 => State::Trailer { line_is_empty: true },
        (b'\n', _) => State::ChunkData { left: size },
        (b'\r', _) => State::ChunkSize { size, in_extension },
        (_, Some(digit)) if !in_extension && size < 1 << 40 => {
            State::ChunkSize { size: size << 4 | u64::from(digit), in_extension }
        }
        (b';' | b' ', _) => State::ChunkSize { size, in_extension: true },
        _ if in_extension => State::ChunkSize { size, in_extension },
        _ => bail!("bad chunk size byte {byte:#x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNARY: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{\"a\"}";
    const SSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
        transfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\nA;x=1\r\ndata: bb\n\n\r\nE\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

    fn read(bytes: &[u8], piece: usize) -> Reply {
        let mut reply = Reply::default();
        bytes.chunks(piece).for_each(|it| reply.feed(it).unwrap());
        reply
    }

    #[test]
    fn unary_in_pieces_of_every_size() {
        for piece in 1..=UNARY.len() {
            let reply = read(UNARY, piece);
            reply.verify(false).unwrap();
            assert_eq!(reply.body_bytes, 5);
        }
    }

    #[test]
    fn sse_in_pieces_of_every_size() {
        for piece in 1..=SSE.len() {
            let reply = read(SSE, piece);
            reply.verify(true).unwrap();
            assert_eq!(reply.n_events(), 3, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let complaint = |bytes: &[u8], sse| read(bytes, bytes.len()).verify(sse).unwrap_err().to_string();
        assert_eq!(complaint(&UNARY[..UNARY.len() - 1], false), "the answer was cut off");
        assert_eq!(complaint(b"HTTP/1.1 502 Bad\r\ncontent-length: 1\r\n\r\nx", false), "status 502");
        assert_eq!(complaint(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false), "empty body");
        assert!(complaint(UNARY, true).starts_with("wrong content type"));
        let no_done =
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9\r\n\r\ndata: a\n\n";
        assert_eq!(complaint(no_done, true), "the stream does not end with `[DONE]`");
    }

    #[test]
    fn reset_reads_the_next_answer_and_surplus_is_an_error() {
        let mut reply = read(SSE, 7);
        assert!(reply.feed(b"x").is_err());
        reply.reset();
        reply.feed(UNARY).unwrap();
        reply.verify(false).unwrap();
        assert!(!reply.closes());
    }
}
