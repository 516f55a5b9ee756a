//! Why a file is not a GGUF file that an engine can load.

use std::{fmt, io};

use crate::unread;

/// The text is written for the person who added the file: what is wrong, then what to do if that is known.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("the file is empty; download it again")]
    Empty,
    #[error("this is a git-lfs pointer, not the file itself; run `git lfs pull` or download the file")]
    LfsPointer,
    #[error("this is a web page, not a GGUF file; the download probably needed a token")]
    WebPage,
    #[error("this is a GGML file from before GGUF (August 2023); convert it or download a GGUF file")]
    LegacyGgml,
    #[error("not a GGUF file: it starts with {}, not with `GGUF`", Magic(.0))]
    NotGguf(Vec<u8>),
    #[error("this is a big-endian GGUF file (version {version}); engines on this machine need little-endian")]
    BigEndian { version: u32 },
    #[error("GGUF version {0} is not known; versions 1 to 3 are")]
    Version(u32),
    /// The header needs `needs` bytes at `at`, and only `left` bytes are left.
    #[error(
        "the file ends inside its header, in {part}: {needs} bytes at offset {at}, {left} left; download it again"
    )]
    TruncatedHeader { part: Part, at: u64, needs: u64, left: u64 },
    /// The header is complete, the tensor data is not.
    #[error(
        "the file ends before its tensors do: {needs} bytes are needed, it has {file_len} (first tensor cut off: \
         `{tensor}`); the download is incomplete"
    )]
    TruncatedData { tensor: String, needs: u64, file_len: u64 },
    #[error("the header claims {claimed} {what}; at most {limit} are read, the file is damaged")]
    TooMany { what: &'static str, claimed: u64, limit: u64 },
    #[error("{part} has a name of {len} bytes; at most {limit} are allowed")]
    NameLength { part: Part, len: u64, limit: u64 },
    #[error("{part} has a name that is not UTF-8")]
    NameNotUtf8 { part: Part },
    #[error("key `{key}` has the unknown value type {code}")]
    ValueType { key: String, code: u32 },
    #[error("key `{key}` holds an array of arrays, which no engine reads")]
    NestedArray { key: String },
    #[error("key `{0}` appears twice")]
    DuplicateKey(String),
    #[error("tensor `{0}` appears twice")]
    DuplicateTensor(String),
    #[error("tensor `{tensor}` has {dims} dimensions; at most 4 are allowed")]
    Dimensions { tensor: String, dims: u32 },
    #[error("tensor `{tensor}` has more elements than can be counted")]
    Shape { tensor: String },
    #[error(
        "tensor `{tensor}` has rows of {row} elements, not a multiple of {block}, the block size of {ggml_type}"
    )]
    Row { tensor: String, row: u64, block: u64, ggml_type: &'static str },
    #[error("tensor `{tensor}` is at offset {offset}, {expected} expected; the file is damaged")]
    Offset { tensor: String, offset: u64, expected: u64 },
    #[error("`general.alignment` is {0}, not a power of two")]
    Alignment(u64),
    #[error("the header is larger than this gateway reads ({limit} bytes)")]
    HeaderTooLarge { limit: u64 },
    #[error("the file {}", unread(.0))]
    Io(#[source] io::Error),
}

/// The part of the header that was being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Counts,
    /// Number of the key, from 1.
    Key {
        number: u64,
        of: u64,
    },
    /// Number of the tensor, from 1.
    Tensor {
        number: u64,
        of: u64,
    },
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counts => f.write_str("its first bytes"),
            Self::Key { number, of } => write!(f, "key {number} of {of}"),
            Self::Tensor { number, of } => write!(f, "tensor {number} of {of}"),
        }
    }
}

/// Shows the first bytes as text if they are printable, else in hexadecimal.
struct Magic<'a>(&'a [u8]);

impl fmt::Display for Magic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && self.0.iter().all(u8::is_ascii_graphic) {
            return write!(f, "`{}`", String::from_utf8_lossy(self.0));
        }
        f.write_str("the bytes")?;
        self.0.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}
