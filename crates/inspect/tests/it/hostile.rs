//! Tests with hostile input: nothing panics, and nothing is read or kept beyond its bound.

use std::{
    cell::Cell,
    io::{self, Cursor, Read, Seek, SeekFrom},
};

use gantry_inspect::{
    gguf::{self, GgufError, MAX_READ_BYTES, MAX_TEXTS},
    safetensors,
};
use proptest::prelude::*;

use crate::{build::Gguf, fixtures, gguf::read_sized};

/// A reader that gives `head`, then zeros without end, and counts what is read.
struct Sparse<'a> {
    head: &'a [u8],
    at: u64,
    read: &'a Cell<u64>,
}

impl Read for Sparse<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        buf.fill(0);
        if let Some(rest) = self.head.get(usize::try_from(self.at).unwrap()..) {
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
        }
        self.at += buf.len() as u64;
        self.read.set(self.read.get() + buf.len() as u64);
        Ok(buf.len())
    }
}

impl Seek for Sparse<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        self.at = at;
        Ok(at)
    }
}

/// Returns the error for `head` at the start of a file of `size` bytes, and how much of it was read.
fn refusal(head: &[u8], size: u64) -> (GgufError, u64) {
    let read = Cell::new(0);
    let error = gguf::read(Sparse { head, at: 0, read: &read }, size).unwrap_err();
    (error, read.get())
}

const TERABYTE: u64 = 1 << 40;

#[test]
fn huge_counts_are_refused_unread() {
    for claimed in [1_u64 << 63, u64::MAX, 1 << 40, 1 << 20] {
        let (error, read) = refusal(&Gguf::new().claiming(0, claimed), u64::MAX);
        assert!(matches!(error, GgufError::TooMany { what: "keys", .. }), "{error}");
        assert!(read < 100_000);
        let (error, _) = refusal(&Gguf::new().claiming(claimed, 0), u64::MAX);
        assert!(matches!(error, GgufError::TooMany { what: "tensors", .. }), "{error}");
    }
}

#[test]
fn huge_texts_and_arrays_are_refused_unread() {
    let huge = |len: u64| len.to_le_bytes();
    for len in [1_u64 << 40, 1 << 63, u64::MAX] {
        for built in [
            Gguf::new().raw("a", 8, &huge(len)),
            Gguf::new().array("a", 6, len, &[]),
            Gguf::new().array("a", 8, len, &[]),
            Gguf::new().array("a", 8, 1, &huge(len)),
        ] {
            let (head, _) = built.finish();
            let (error, read) = refusal(&head, 1 << 30);
            assert!(matches!(error, GgufError::TruncatedHeader { .. }), "{error}");
            assert!(read < 100_000);
        }
    }
}

#[test]
fn an_array_of_arrays_is_refused_at_its_first_level() {
    let (error, read) = refusal(&Gguf::new().array("a", 9, 1 << 30, &[9, 0, 0, 0]).finish().0, TERABYTE);
    assert!(matches!(error, GgufError::NestedArray { .. }), "{error}");
    assert!(read < 100_000);
}

#[test]
fn a_sparse_file_full_of_empty_texts_is_not_read_to_its_end() {
    let (error, _) = refusal(&Gguf::new().array("a", 8, MAX_TEXTS + 1, &[]).finish().0, TERABYTE);
    assert!(matches!(error, GgufError::TooMany { what: "texts in an array", .. }), "{error}");
    // Each array is within its limit, but there are several.
    let built = (0..4).fold(Gguf::new(), |built, n| built.array(&format!("{n}"), 8, MAX_TEXTS, &[]));
    let (error, read) = refusal(&built.claiming(0, 4), TERABYTE);
    assert!(matches!(error, GgufError::NameLength { .. } | GgufError::HeaderTooLarge { .. }), "{error}");
    assert!(read <= MAX_READ_BYTES + 1_000_000);
}

/// A reader that gives `head`, then texts of `len` bytes without end.
struct Repeating {
    head: Vec<u8>,
    len: u64,
    at: u64,
    read: u64,
}
impl Read for Repeating {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        for (n, byte) in buf.iter_mut().enumerate() {
            let at = self.at + n as u64;
            let within = at.saturating_sub(self.head.len() as u64) % (8 + self.len);
            let text = self.len.to_le_bytes().get(within as usize).copied().unwrap_or(b'x');
            *byte = self.head.get(at as usize).copied().unwrap_or(text);
        }
        self.at += buf.len() as u64;
        self.read += buf.len() as u64;
        Ok(buf.len())
    }
}
impl Seek for Repeating {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        self.at = at;
        Ok(at)
    }
}

#[test]
fn long_texts_that_have_to_be_skipped_one_by_one_stay_within_the_read_limit() {
    // Each is skipped by a seek, after which a chunk is read again.
    let (len, count) = (300_000_u64, 100_000_u64);
    let head = Gguf::new().array("a", 8, count, &[]).claiming(0, 1);
    let mut reader = Repeating { head, len, at: 0, read: 0 };
    let error = gguf::read(&mut reader, TERABYTE).unwrap_err();
    assert!(matches!(error, GgufError::HeaderTooLarge { .. }), "{error}");
    assert!(reader.read <= MAX_READ_BYTES + 1_000_000);
}

#[test]
fn more_metadata_than_the_budget_is_refused() {
    let value = "x".repeat(30_000);
    let built = (0..400).fold(Gguf::new(), |built, n| built.str(&format!("key.{n}"), &value));
    let (head, size) = built.finish();
    assert!(matches!(read_sized(&head, size), Err(GgufError::HeaderTooLarge { .. })));
}

#[test]
fn every_truncation_of_a_good_header_is_an_error() {
    for (name, step) in [
        ("bad-no-tokenizer.gguf", 1),
        ("tiny-split-F16-00002-of-00002.gguf", 1),
        ("tiny-bert-embed-F16.gguf", 1),
        ("tiny-llama-F16.gguf", 7),
    ] {
        let head = fixtures::gguf_head(name);
        for len in (0..head.len()).step_by(step) {
            // The file ends there …
            assert!(read_sized(&head[..len], len as u64).is_err(), "{name} cut at {len}");
            // … or shrank after its size was taken.
            let shrunk = read_sized(&head[..len], fixtures::gguf_size(name));
            assert!(shrunk.is_err() || head[len..].iter().all(|it| *it == 0), "{name} shrunk to {len}");
        }
        assert!(read_sized(&head, fixtures::gguf_size(name)).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn a_mutated_gguf_header_is_read_or_refused(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
        size in prop_oneof![Just(396_384_u64), any::<u64>(), 0..100_000_u64],
    ) {
        let mut head = fixtures::gguf_head("bad-no-tokenizer.gguf");
        for (at, byte) in edits {
            let at = at.index(head.len());
            head[at] = byte;
        }
        if let Some(cut) = cut {
            head.truncate(cut.index(head.len()));
        }
        if let Ok(header) = read_sized(&head, size) {
            // Every derived value must not panic either.
            let _ = (header.vocab_size(), header.head_count_kv(), header.key_length(), header.task(), header.kind());
            let _ = (header.quantization("x.gguf"), header.parameter_count(), header.tensor_bytes(), header.mla());
            let tensors = header.tensors.iter();
            let _ = gguf::missing_block_tensors("llama", header.block_count().unwrap_or(u64::MAX), tensors);
        }
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(read_sized(&bytes, bytes.len() as u64).is_err());
        let after_magic = [b"GGUF\x03\0\0\0".to_vec(), bytes.clone()].concat();
        let _ = read_sized(&after_magic, u64::MAX);
        let _ = safetensors::read_header(Cursor::new(&bytes), bytes.len() as u64);
    }
}
