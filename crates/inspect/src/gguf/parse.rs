//! Parses bytes into a [`GgufHeader`].

use std::{
    collections::BTreeMap,
    io::{Read, Seek},
};

use super::{
    GgufHeader, MAX_KEY_BYTES, MAX_KEYS, MAX_TENSOR_NAME_BYTES, MAX_TENSORS, TensorInfo, Value,
    cursor::Cursor,
    error::{GgufError, Part},
    tensor::GgmlType,
    value::{self, Budget},
};
use crate::{LFS_POINTER, clip};

/// Alignment if `general.alignment` is absent (`docs/gguf.md`).
const DEFAULT_ALIGNMENT: u64 = 32;
/// First bytes of GGML, GGMF, GGJT and GGLA files, which hold the magic as a little-endian number; writers that
/// stored it as text are covered by `GGML`.
const LEGACY: [&[u8]; 5] = [b"lmgg", b"fmgg", b"tjgg", b"algg", b"GGML"];

/// Reads the header of the file behind `reader`, which has `file_len` bytes. Tensor data is not read.
///
/// # Errors
/// Returns the first problem of the file. If there is none, the header is sound and all tensors lie within the file.
pub fn read(reader: impl Read + Seek, file_len: u64) -> Result<GgufHeader, GgufError> {
    let cursor = &mut Cursor::new(reader, file_len);
    let version = version(cursor)?;
    cursor.narrow = version == 1;
    let tensor_count = cursor.count()?;
    let key_count = cursor.count()?;
    // Bytes of the shortest entries: a key has the length of its name, a type and a one-byte value; a tensor has the
    // length of its name, the number of dimensions, a type and an offset.
    let (shortest_key, shortest_tensor) = if cursor.narrow { (9, 20) } else { (13, 24) };
    check_count(cursor, "keys", key_count, MAX_KEYS, shortest_key)?;
    check_count(cursor, "tensors", tensor_count, MAX_TENSORS, shortest_tensor)?;

    let budget = &mut Budget::new();
    let metadata = metadata(cursor, key_count, budget)?;
    let alignment = match metadata.get("general.alignment") {
        None => DEFAULT_ALIGNMENT,
        Some(value) => {
            let alignment = value.as_u64().unwrap_or(0);
            if !alignment.is_power_of_two() || alignment > u64::from(u32::MAX) {
                return Err(GgufError::Alignment(alignment));
            }
            alignment
        }
    };
    let tensors = tensors(cursor, tensor_count, budget)?;
    let data_start =
        cursor.at().checked_next_multiple_of(alignment).ok_or(GgufError::Alignment(alignment))?;
    check_layout(&tensors, data_start, alignment, file_len)?;
    Ok(GgufHeader { version, metadata, tensors, alignment, data_start, file_len, kept_bytes: budget.spent() })
}

fn version(cursor: &mut Cursor<impl Read + Seek>) -> Result<u32, GgufError> {
    let start = cursor.peek(64)?;
    if start.is_empty() {
        return Err(GgufError::Empty);
    }
    if !start.starts_with(b"GGUF") {
        let text = start.trim_ascii_start();
        return Err(if start.starts_with(LFS_POINTER) {
            GgufError::LfsPointer
        } else if LEGACY.iter().any(|magic| start.starts_with(magic)) {
            GgufError::LegacyGgml
        } else if text.starts_with(b"<!") || text.starts_with(b"<html") {
            GgufError::WebPage
        } else {
            GgufError::NotGguf(start.get(..4).unwrap_or(start).to_vec())
        });
    }
    cursor.skip(4)?;
    let version = cursor.u32()?;
    match version {
        1..=3 => Ok(version),
        // llama.cpp uses the same test for the other byte order.
        _ if version != 0 && version.trailing_zeros() >= 16 => {
            Err(GgufError::BigEndian { version: version.swap_bytes() })
        }
        _ => Err(GgufError::Version(version)),
    }
}

/// Reads a count. It must be within its cap, and its entries, of at least `shortest` bytes each, must fit in the rest
/// of the file.
fn check_count(
    cursor: &Cursor<impl Read + Seek>,
    what: &'static str,
    claimed: u64,
    limit: u64,
    shortest: u64,
) -> Result<(), GgufError> {
    if claimed > limit {
        return Err(GgufError::TooMany { what, claimed, limit });
    }
    let (needs, left) = (claimed.saturating_mul(shortest), cursor.left());
    if needs > left {
        return Err(GgufError::TruncatedHeader { part: cursor.part, at: cursor.at(), needs, left });
    }
    Ok(())
}

fn metadata(
    cursor: &mut Cursor<impl Read + Seek>,
    count: u64,
    budget: &mut Budget,
) -> Result<BTreeMap<Box<str>, Value>, GgufError> {
    let mut metadata = BTreeMap::new();
    for number in 1..=count {
        cursor.part = Part::Key { number, of: count };
        let key = name(cursor, MAX_KEY_BYTES, budget)?;
        // This charges an entry and its share of a tree node that is half full.
        budget.charge(2 * (size_of::<Box<str>>() + size_of::<Value>()))?;
        let value = value::read(cursor, &key, budget)?;
        if metadata.contains_key(&key) {
            return Err(GgufError::DuplicateKey(clip(&key)));
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

/// Reads a key or a tensor's name, which is never empty.
fn name(
    cursor: &mut Cursor<impl Read + Seek>,
    limit: u64,
    budget: &mut Budget,
) -> Result<Box<str>, GgufError> {
    let part = cursor.part;
    let len = cursor.count()?;
    if len == 0 || len > limit {
        return Err(GgufError::NameLength { part, len, limit });
    }
    // The charge includes the allocator's own overhead.
    budget.charge((len as usize).saturating_add(16))?;
    let bytes = cursor.take(len as usize)?;
    std::str::from_utf8(bytes).map(Into::into).map_err(|_| GgufError::NameNotUtf8 { part })
}

fn tensors(
    cursor: &mut Cursor<impl Read + Seek>,
    count: u64,
    budget: &mut Budget,
) -> Result<Vec<TensorInfo>, GgufError> {
    let mut tensors = Vec::new();
    for number in 1..=count {
        cursor.part = Part::Tensor { number, of: count };
        let name = name(cursor, MAX_TENSOR_NAME_BYTES, budget)?;
        // The charge is doubled, because a growing vector also holds its old half while it copies.
        budget.charge(2 * size_of::<TensorInfo>())?;
        tensors.push(tensor(cursor, name)?);
    }
    let mut names: Vec<&str> = tensors.iter().map(|it| &*it.name).collect();
    names.sort_unstable();
    let twin = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b);
    if let Some((name, _)) = twin {
        return Err(GgufError::DuplicateTensor((*name).to_owned()));
    }
    Ok(tensors)
}

fn tensor(cursor: &mut Cursor<impl Read + Seek>, name: Box<str>) -> Result<TensorInfo, GgufError> {
    let n_dims = cursor.u32()?;
    if n_dims > 4 {
        return Err(GgufError::Dimensions { tensor: name.into(), dims: n_dims });
    }
    let mut dims = [1; 4];
    for dim in dims.iter_mut().take(n_dims as usize) {
        *dim = cursor.count()?;
    }
    let [row, ..] = dims;
    let ggml_type = GgmlType(cursor.u32()?);
    let offset = cursor.u64()?;
    if let (Some((block, _)), Some(type_name)) = (ggml_type.block(), ggml_type.name())
        && !row.is_multiple_of(block)
    {
        return Err(GgufError::Row { tensor: name.into(), row, block, ggml_type: type_name });
    }
    TensorInfo::new(name.clone(), dims, n_dims as u8, ggml_type, offset)
        .ok_or_else(|| GgufError::Shape { tensor: name.into() })
}

/// Checks that tensors follow each other without gaps except padding, as llama.cpp demands, and end within the file.
fn check_layout(
    tensors: &[TensorInfo],
    data_start: u64,
    alignment: u64,
    file_len: u64,
) -> Result<(), GgufError> {
    let mut expected = Some(0);
    let mut needs = 0;
    let mut cut_off = None;
    for tensor in tensors {
        let shape = || GgufError::Shape { tensor: tensor.name.to_string() };
        if let Some(expected) = expected
            && tensor.offset != expected
        {
            return Err(GgufError::Offset {
                tensor: tensor.name.to_string(),
                offset: tensor.offset,
                expected,
            });
        }
        let end = tensor.offset.checked_add(tensor.bytes.unwrap_or(0)).ok_or_else(shape)?;
        let file_end = end.checked_add(data_start).ok_or_else(shape)?;
        if file_end > file_len && cut_off.is_none() {
            cut_off = Some(tensor);
        }
        needs = file_end.max(needs);
        // Behind a tensor of unknown size it is unknown where the next one starts.
        expected = match tensor.bytes {
            Some(_) => Some(end.checked_next_multiple_of(alignment).ok_or_else(shape)?),
            None => None,
        };
    }
    match cut_off {
        Some(tensor) => Err(GgufError::TruncatedData { tensor: tensor.name.to_string(), needs, file_len }),
        None => Ok(()),
    }
}
