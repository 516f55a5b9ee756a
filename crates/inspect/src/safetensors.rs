//! safetensors headers: which tensors a file holds, without their data.
//!
//! Format and its rules: `safetensors/src/tensor.rs` of huggingface/safetensors 0.6 (`read_metadata`,
//! `Metadata::validate`): eight bytes of length, JSON, then data without gaps to the end of the file.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Seek, SeekFrom},
};

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::{
    LFS_POINTER, clip,
    json::{self, JsonError, Limits},
    unread,
};

/// Longest header, in bytes (`MAX_HEADER_SIZE` of the reference implementation).
pub const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Most tensors of one file. The largest checkpoints have some 100,000 in all their files.
pub const MAX_TENSORS: usize = 500_000;
/// Most dimensions of one tensor; the format sets no bound.
pub const MAX_DIMS: usize = 16;

/// Names of element types, with the bits of one element.
const DTYPES: &[(&str, u64)] = &[
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("I64", 64),
    ("U64", 64),
    ("F64", 64),
    ("C64", 64),
];

/// Why a file is not a safetensors file that an engine can load.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsError {
    #[error("the file is empty; download it again")]
    Empty,
    #[error("this is a git-lfs pointer, not the file itself; run `git lfs pull` or download the file")]
    LfsPointer,
    #[error("not a safetensors file: the header claims {claimed} bytes, at most {limit} are allowed")]
    HeaderLength { claimed: u64, limit: u64 },
    #[error(
        "the file ends inside its header: {needs} bytes are needed, it has {file_len}; download it again"
    )]
    TruncatedHeader { needs: u64, file_len: u64 },
    #[error(
        "the file ends before its tensors do: {needs} bytes are needed, it has {file_len}; the download is incomplete"
    )]
    TruncatedData { needs: u64, file_len: u64 },
    #[error("{extra} bytes follow the last tensor; the file is damaged")]
    TrailingData { extra: u64 },
    #[error("the header is damaged: {0}")]
    Json(#[source] JsonError),
    #[error("the header holds more than {limit} tensors")]
    TooMany { limit: usize },
    #[error("two tensors have the same name")]
    DuplicateTensor,
    #[error("tensor `{tensor}` has the unknown type `{dtype}`")]
    Dtype { tensor: String, dtype: String },
    #[error("tensor `{tensor}` occupies {bytes} bytes, its shape needs {expected}")]
    Size { tensor: String, bytes: u64, expected: u64 },
    #[error("tensor `{tensor}` has a shape or a place that can't be")]
    Shape { tensor: String },
    #[error("the tensors leave a gap or overlap at byte {at} of the data")]
    Gap { at: u64 },
    #[error("the file {}", unread(.0))]
    Io(#[source] io::Error),
}

/// One tensor, while it streams by.
#[derive(Debug)]
pub struct Entry<'a> {
    pub name: &'a str,
    /// Type, as in `BF16`.
    pub dtype: &'static str,
    pub shape: &'a [u64],
    pub elements: u64,
    pub bytes: u64,
}

/// Totals over the tensors of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub tensors: u64,
    pub elements: u64,
    pub bytes: u64,
}

/// The header of one file that was read without an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SafetensorsHeader {
    /// Length of the JSON in bytes.
    pub header_bytes: u64,
    pub tensor_count: u64,
    /// Size of all tensors in bytes. With the header and eight bytes more, it is the size of the file.
    pub tensor_bytes: u64,
    /// Totals by type, as in `BF16`.
    pub by_dtype: BTreeMap<&'static str, Totals>,
}

/// Reads the header of the file behind `reader`, which has `file_len` bytes. Tensor data is not read.
///
/// # Errors
/// Says what is wrong with the file. A file without an error is complete and loads in the reference implementation.
pub fn read_header(reader: impl Read + Seek, file_len: u64) -> Result<SafetensorsHeader, SafetensorsError> {
    read_header_with(reader, file_len, &mut |_| {})
}

/// Reads as [`read_header`] does, and shows every tensor to `visit`, in the header's order. Tensors may be shown before
/// an error is found.
pub fn read_header_with(
    mut reader: impl Read + Seek,
    file_len: u64,
    visit: &mut dyn FnMut(&Entry<'_>),
) -> Result<SafetensorsHeader, SafetensorsError> {
    reader.seek(SeekFrom::Start(0)).map_err(SafetensorsError::Io)?;
    let start = read_start(&mut reader)?;
    let header_bytes = match start.first_chunk::<8>() {
        _ if start.is_empty() => return Err(SafetensorsError::Empty),
        _ if start.starts_with(LFS_POINTER) => return Err(SafetensorsError::LfsPointer),
        None => return Err(SafetensorsError::TruncatedHeader { needs: 8, file_len }),
        Some(bytes) => u64::from_le_bytes(*bytes),
    };
    if header_bytes > MAX_HEADER_BYTES {
        return Err(SafetensorsError::HeaderLength { claimed: header_bytes, limit: MAX_HEADER_BYTES });
    }
    // This can't overflow, because `header_bytes` was limited above.
    let data_start = 8_u64.saturating_add(header_bytes);
    if data_start > file_len {
        return Err(SafetensorsError::TruncatedHeader { needs: data_start, file_len });
    }
    reader.seek(SeekFrom::Start(8)).map_err(SafetensorsError::Io)?;

    let mut state = State { visit, header: SafetensorsHeader::default(), extents: Vec::new(), problem: None };
    state.header.header_bytes = header_bytes;
    let limits = Limits { bytes: MAX_HEADER_BYTES, ..Limits::STREAMED };
    let parsed = json::read_with(reader.take(header_bytes), limits, Tensors(&mut state));
    if let Some(problem) = state.problem {
        return Err(problem);
    }
    parsed.map_err(SafetensorsError::Json)?;
    let (mut header, mut extents) = (state.header, state.extents);

    extents.sort_unstable();
    let mut end = 0;
    for place in &extents {
        if place.begin != end {
            return Err(SafetensorsError::Gap { at: end });
        }
        end = place.end;
    }
    header.tensor_bytes = end;
    let needs = data_start.saturating_add(end);
    if needs > file_len {
        return Err(SafetensorsError::TruncatedData { needs, file_len });
    }
    if needs < file_len {
        return Err(SafetensorsError::TrailingData { extra: file_len.saturating_sub(needs) });
    }
    Ok(header)
}

/// Reads up to 64 bytes.
fn read_start(reader: &mut impl Read) -> Result<Vec<u8>, SafetensorsError> {
    let mut start = Vec::new();
    reader.take(64).read_to_end(&mut start).map_err(SafetensorsError::Io)?;
    Ok(start)
}

/// The bytes that a tensor occupies, from the start of the data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    begin: u64,
    end: u64,
    /// Hash of the name. With it, two tensors of one name are found without keeping names.
    hash: u64,
}

struct State<'v> {
    visit: &'v mut dyn FnMut(&Entry<'_>),
    header: SafetensorsHeader,
    extents: Vec<Extent>,
    /// A problem that a JSON error can't express.
    problem: Option<SafetensorsError>,
}

impl State<'_> {
    fn add(&mut self, name: &str, raw: &Raw) -> Result<(), SafetensorsError> {
        let tensor = || clip(name);
        if self.extents.len() >= MAX_TENSORS {
            return Err(SafetensorsError::TooMany { limit: MAX_TENSORS });
        }
        let dtype = DTYPES.iter().find(|it| it.0 == raw.dtype);
        let Some(&(dtype, bits)) = dtype else {
            let dtype = clip(&raw.dtype);
            return Err(SafetensorsError::Dtype { tensor: tensor(), dtype });
        };
        let elements = raw.shape.iter().try_fold(1_u64, |all, dim| all.checked_mul(*dim));
        let needs_bits = elements.and_then(|it| it.checked_mul(bits)).filter(|it| it.is_multiple_of(8));
        let [begin, end] = raw.data_offsets;
        let (Some(elements), Some(needs_bits), Some(bytes)) = (elements, needs_bits, end.checked_sub(begin))
        else {
            return Err(SafetensorsError::Shape { tensor: tensor() });
        };
        let expected = needs_bits / 8;
        if bytes != expected {
            return Err(SafetensorsError::Size { tensor: tensor(), bytes, expected });
        }
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.extents.push(Extent { begin, end, hash: hasher.finish() });
        self.header.tensor_count = self.header.tensor_count.saturating_add(1);
        let totals = self.header.by_dtype.entry(dtype).or_default();
        totals.tensors = totals.tensors.saturating_add(1);
        totals.elements = totals.elements.saturating_add(elements);
        totals.bytes = totals.bytes.saturating_add(bytes);
        (self.visit)(&Entry { name, dtype, shape: &raw.shape, elements, bytes });
        Ok(())
    }
}

/// Reads the object of the header.
struct Tensors<'s, 'v>(&'s mut State<'v>);

impl<'de> DeserializeSeed<'de> for Tensors<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tensors<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let raw = map.next_value::<Raw>()?;
            if let Err(problem) = self.0.add(&name, &raw) {
                self.0.problem = Some(problem);
                return Err(A::Error::custom("see the problem"));
            }
        }
        // Names were hashed in the header's order; sorting finds duplicates.
        let mut hashes: Vec<u64> = self.0.extents.iter().map(|it| it.hash).collect();
        hashes.sort_unstable();
        if hashes.iter().zip(hashes.iter().skip(1)).any(|(a, b)| a == b) {
            self.0.problem = Some(SafetensorsError::DuplicateTensor);
            return Err(A::Error::custom("see the problem"));
        }
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Raw {
    dtype: String,
    #[serde(deserialize_with = "shape")]
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Reads at most [`MAX_DIMS`] numbers.
fn shape<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Vec<u64>, D::Error> {
    struct Shape;
    impl<'de> Visitor<'de> for Shape {
        type Value = Vec<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_DIMS} dimensions")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u64>, A::Error> {
            let mut dims = Vec::new();
            while let Some(dim) = seq.next_element()? {
                if dims.len() == MAX_DIMS {
                    return Err(A::Error::invalid_length(MAX_DIMS.saturating_add(1), &self));
                }
                dims.push(dim);
            }
            Ok(dims)
        }
    }
    json.deserialize_seq(Shape)
}
