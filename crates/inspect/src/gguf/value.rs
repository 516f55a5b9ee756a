//! Metadata values. Scalars and short texts and arrays are kept; of long texts and arrays only the length.

use std::io::{Read, Seek};

use super::{KEPT_BYTES, KEPT_ELEMENTS, KEPT_TEXT_BYTES, MAX_TEXTS, cursor::Cursor, error::GgufError};
use crate::clip;

/// A number or a truth value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
}

impl Scalar {
    /// Returns the value if it is a whole number that is not negative.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Unsigned(it) => Some(it),
            Self::Signed(it) => u64::try_from(it).ok(),
            Self::Bool(_) | Self::Float(_) => None,
        }
    }

    /// Returns the value as a number; `None` for a flag.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::Unsigned(it) => Some(it as f64),
            Self::Signed(it) => Some(it as f64),
            Self::Float(it) => Some(it),
            Self::Bool(_) => None,
        }
    }

    /// Returns the value as a flag. Numbers are true unless they are 0, because writers store flags in different ways.
    pub fn as_bool(self) -> Option<bool> {
        match self {
            Self::Bool(it) => Some(it),
            other => other.as_u64().map(|it| it != 0),
        }
    }
}

/// The part of a metadata value that is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Scalar(Scalar),
    /// A text of at most [`KEPT_TEXT_BYTES`]. Bytes that are not UTF-8 are replaced.
    Text(Box<str>),
    /// A longer text, of this many bytes.
    LongText(u64),
    /// An array of at most [`KEPT_ELEMENTS`] numbers.
    Numbers(Box<[Scalar]>),
    /// A longer array of numbers, or any array of texts, of this many elements.
    Array(u64),
}

impl Value {
    /// Returns a single value as [`Scalar::as_u64`] does.
    pub fn as_u64(&self) -> Option<u64> {
        if let Self::Scalar(it) = self { it.as_u64() } else { None }
    }

    /// Returns a single value as [`Scalar::as_f64`] does.
    pub fn as_f64(&self) -> Option<f64> {
        if let Self::Scalar(it) = self { it.as_f64() } else { None }
    }

    /// Returns a single value as [`Scalar::as_bool`] does.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Scalar(it) = self { it.as_bool() } else { None }
    }

    /// Returns a text, if it was short enough to be kept.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(it) = self { Some(it) } else { None }
    }

    /// Returns the number of elements; `None` if it is not an array.
    pub fn array_len(&self) -> Option<u64> {
        match self {
            Self::Numbers(it) => Some(it.len() as u64),
            Self::Array(len) => Some(*len),
            _ => None,
        }
    }

    /// Whether it is a text that is not empty.
    pub fn is_text(&self) -> bool {
        match self {
            Self::Text(it) => !it.is_empty(),
            Self::LongText(_) => true,
            _ => false,
        }
    }
}

/// The memory that is left for values of this file.
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: KEPT_BYTES }
    }

    /// Returns the bytes charged so far.
    pub(super) fn spent(&self) -> usize {
        KEPT_BYTES.saturating_sub(self.left)
    }

    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), GgufError> {
        self.left =
            self.left.checked_sub(bytes).ok_or(GgufError::HeaderTooLarge { limit: KEPT_BYTES as u64 })?;
        Ok(())
    }
}

/// The value types of the format, by their code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

impl Type {
    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::Text,
            9 => Self::Array,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Returns the bytes of one number; `None` for texts and arrays.
    fn size(self) -> Option<u64> {
        Some(match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Text | Self::Array => return None,
        })
    }

    fn scalar(self, cursor: &mut Cursor<impl Read + Seek>) -> Result<Scalar, GgufError> {
        Ok(match self {
            Self::U8 => Scalar::Unsigned(cursor.u8()?.into()),
            Self::I8 => Scalar::Signed(cursor.u8()?.cast_signed().into()),
            Self::U16 => Scalar::Unsigned(cursor.u16()?.into()),
            Self::I16 => Scalar::Signed(cursor.u16()?.cast_signed().into()),
            Self::U32 => Scalar::Unsigned(cursor.u32()?.into()),
            Self::I32 => Scalar::Signed(cursor.u32()?.cast_signed().into()),
            Self::F32 => Scalar::Float(f32::from_bits(cursor.u32()?).into()),
            Self::Bool => Scalar::Bool(cursor.u8()? != 0),
            Self::I64 => Scalar::Signed(cursor.u64()?.cast_signed()),
            Self::F64 => Scalar::Float(f64::from_bits(cursor.u64()?)),
            // Callers have already handled texts and arrays.
            Self::U64 | Self::Text | Self::Array => Scalar::Unsigned(cursor.u64()?),
        })
    }
}

/// Reads the type and the value of `key`.
pub(super) fn read(
    cursor: &mut Cursor<impl Read + Seek>,
    key: &str,
    budget: &mut Budget,
) -> Result<Value, GgufError> {
    match read_type(cursor, key)? {
        Type::Text => text(cursor, budget),
        Type::Array => array(cursor, key, budget),
        number => number.scalar(cursor).map(Value::Scalar),
    }
}

fn read_type(cursor: &mut Cursor<impl Read + Seek>, key: &str) -> Result<Type, GgufError> {
    let code = cursor.u32()?;
    Type::from_code(code).ok_or_else(|| GgufError::ValueType { key: clip(key), code })
}

fn text(cursor: &mut Cursor<impl Read + Seek>, budget: &mut Budget) -> Result<Value, GgufError> {
    let len = cursor.count()?;
    if len > KEPT_TEXT_BYTES {
        cursor.skip(len)?;
        return Ok(Value::LongText(len));
    }
    // A byte that is replaced becomes three.
    budget.charge((len as usize).saturating_mul(3))?;
    Ok(Value::Text(String::from_utf8_lossy(cursor.take(len as usize)?).into()))
}

fn array(cursor: &mut Cursor<impl Read + Seek>, key: &str, budget: &mut Budget) -> Result<Value, GgufError> {
    let element = read_type(cursor, key)?;
    let len = cursor.count()?;
    let Some(size) = element.size() else {
        if element == Type::Array {
            return Err(GgufError::NestedArray { key: clip(key) });
        }
        return skip_texts(cursor, len);
    };
    if len > KEPT_ELEMENTS {
        cursor.skip(len.saturating_mul(size))?;
        return Ok(Value::Array(len));
    }
    if len.saturating_mul(size) > cursor.left() {
        cursor.skip(len.saturating_mul(size))?;
    }
    budget.charge((len as usize).saturating_mul(size_of::<Scalar>()))?;
    let numbers: Result<Box<[Scalar]>, _> = (0..len).map(|_| element.scalar(cursor)).collect();
    numbers.map(Value::Numbers)
}

fn skip_texts(cursor: &mut Cursor<impl Read + Seek>, len: u64) -> Result<Value, GgufError> {
    let shortest = if cursor.narrow { 4 } else { 8 };
    if len > MAX_TEXTS && len.saturating_mul(shortest) <= cursor.left() {
        return Err(GgufError::TooMany { what: "texts in an array", claimed: len, limit: MAX_TEXTS });
    }
    if len.saturating_mul(shortest) > cursor.left() {
        cursor.skip(len.saturating_mul(shortest))?;
    }
    cursor.skip_texts(len)?;
    Ok(Value::Array(len))
}
