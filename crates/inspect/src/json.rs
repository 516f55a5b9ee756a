//! Reads JSON from untrusted files and checks limits before the parser sees the bytes.
//!
//! `serde_json` bounds nesting but neither the length of a text nor the number of values, both of which use up memory.
//! [`Guard`] reads below it and counts the bytes as they pass.
//!
//! Python writes and reads `NaN`, `Infinity` and `-Infinity`, which are no JSON, so the files of checkpoints have them. They pass as
//! values that are no numbers: an empty object, or `-0`.

use std::{
    fmt,
    io::{self, BufReader, Read},
};

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Value};

use crate::{clip, unread};

/// Most that one document may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes: u64,
    /// Number of commas and opening brackets outside texts: an upper bound of the values, less one.
    pub values: u64,
    /// Bytes of one text, with escapes as written.
    pub text: u64,
    /// Levels of nested arrays and objects.
    pub depth: u32,
}

impl Limits {
    /// Limits for a `config.json` and similar files, which are kept as a whole. Real ones have up to some 100 KB; those
    /// that list unquantised modules one by one have more. 100,000 values take at most some 20 MiB when kept.
    pub const CONFIG: Self = Self { bytes: 2 << 20, values: 100_000, text: 256 << 10, depth: 32 };
    /// Limits for files from which a few values are picked while they stream by.
    pub const STREAMED: Self = Self { bytes: 128 << 20, values: 1 << 24, text: 8 << 20, depth: 32 };
}

/// Why a JSON file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error("it is larger than {0} bytes")]
    Bytes(u64),
    #[error("it holds more than {0} values")]
    Values(u64),
    #[error("it holds a text of more than {0} bytes")]
    Text(u64),
    #[error("it nests deeper than {0} levels")]
    Depth(u32),
    /// The text is not valid JSON; the message has line and column.
    #[error("it is not valid JSON: {0}")]
    Syntax(String),
    #[error("it {}", unread(.0))]
    Io(#[source] io::Error),
}

/// Passes bytes on, and fails when a limit is exceeded.
struct Guard<R> {
    inner: R,
    limits: Limits,
    bytes: u64,
    values: u64,
    depth: u32,
    /// Bytes of the text that is being read; `None` outside texts.
    text: Option<u64>,
    escaped: bool,
    /// What must follow of one of Python's numbers; empty outside of them.
    word: &'static [u8],
    last: u8,
    tripped: Option<JsonError>,
}

impl<R> Guard<R> {
    fn check(&mut self, chunk: &mut [u8]) -> Result<(), JsonError> {
        let limits = self.limits;
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        if self.bytes > limits.bytes {
            return Err(JsonError::Bytes(limits.bytes));
        }
        for byte in chunk {
            if let Some(len) = &mut self.text {
                *len = len.saturating_add(1);
                if *len > limits.text {
                    return Err(JsonError::Text(limits.text));
                }
                if self.escaped {
                    self.escaped = false;
                } else if *byte == b'\\' {
                    self.escaped = true;
                } else if *byte == b'"' {
                    self.text = None;
                }
                continue;
            }
            self.replace(byte);
            match *byte {
                b'"' => self.text = Some(0),
                b',' => self.values = self.values.saturating_add(1),
                b'[' | b'{' => {
                    self.values = self.values.saturating_add(1);
                    self.depth = self.depth.saturating_add(1);
                    if self.depth > limits.depth {
                        return Err(JsonError::Depth(limits.depth));
                    }
                }
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if self.values > limits.values {
                return Err(JsonError::Values(limits.values));
            }
        }
        Ok(())
    }

    /// Replaces a byte of one of Python's numbers, outside texts. A word that only begins like one stays wrong.
    fn replace(&mut self, byte: &mut u8) {
        let came = *byte;
        if let [expected, rest @ ..] = self.word {
            if came == *expected {
                // The second byte closes the object that the first one has become.
                *byte = if self.last == b'{' { b'}' } else { b' ' };
                self.word = rest;
            } else {
                // What the word has become so far must not stand for itself.
                (*byte, self.word) = (b'?', b"");
            }
        } else if came == b'N' {
            (*byte, self.word) = (b'{', b"aN");
        } else if came == b'I' {
            *byte = if self.last == b'-' { b'0' } else { b'{' };
            self.word = b"nfinity";
        }
        self.last = *byte;
    }
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        if let Err(error) = self.check(buf.get_mut(..n).unwrap_or_default()) {
            self.tripped = Some(error);
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(n)
    }
}

/// Streams one document through `seed`, which decides what is kept.
pub fn read_with<T, S>(reader: impl Read, limits: Limits, seed: S) -> Result<T, JsonError>
where
    S: for<'de> DeserializeSeed<'de, Value = T>,
{
    let mut guard = Guard {
        inner: reader,
        limits,
        bytes: 0,
        values: 0,
        depth: 0,
        text: None,
        escaped: false,
        word: b"",
        last: 0,
        tripped: None,
    };
    let mut json = Deserializer::from_reader(BufReader::with_capacity(64 * 1024, &mut guard));
    let result = seed.deserialize(&mut json).and_then(|it| json.end().map(|()| it));
    drop(json);
    match (result, guard.tripped) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(tripped)) => Err(tripped),
        (Err(error), None) if error.is_io() => Err(JsonError::Io(error.into())),
        (Err(error), None) => Err(JsonError::Syntax(clip(&error.to_string()))),
    }
}

/// Reads a document as a value.
pub fn read_value(reader: impl Read, limits: Limits) -> Result<Value, JsonError> {
    read_with(reader, limits, std::marker::PhantomData::<Value>)
}

/// Picks values at the top level of a large object while it streams by.
///
/// # Errors
/// [`JsonError::Syntax`] also for a document that is not an object.
pub(crate) fn pick(reader: impl Read, keys: &'static [&'static str]) -> Result<Picked, JsonError> {
    read_with(reader, Limits::STREAMED, Pick { keys })
}

/// Scalars by key; [`Brief::Filled`] stands for texts, arrays and objects that are not empty.
pub(crate) type Picked = Vec<(&'static str, Brief)>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Brief {
    Empty,
    Filled,
    Number(f64),
    Bool,
}

struct Pick {
    keys: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Pick {
    type Value = Picked;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Picked, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick {
    type Value = Picked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Picked, A::Error> {
        let mut picked = Picked::new();
        while let Some(key) = map.next_key::<String>()? {
            match self.keys.iter().find(|it| **it == key) {
                // Only the first of repeated keys counts.
                Some(key) if picked.iter().all(|it| it.0 != *key) => {
                    picked.push((key, map.next_value_seed(BriefSeed)?));
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(picked)
    }
}

struct BriefSeed;

impl<'de> DeserializeSeed<'de> for BriefSeed {
    type Value = Brief;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Brief, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BriefSeed {
    type Value = Brief;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Brief, E> {
        Ok(Brief::Empty)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Brief, E> {
        Ok(Brief::Bool)
    }

    fn visit_u64<E>(self, it: u64) -> Result<Brief, E> {
        Ok(Brief::Number(it as f64))
    }

    fn visit_i64<E>(self, it: i64) -> Result<Brief, E> {
        Ok(Brief::Number(it as f64))
    }

    fn visit_f64<E>(self, it: f64) -> Result<Brief, E> {
        Ok(Brief::Number(it))
    }

    fn visit_str<E>(self, it: &str) -> Result<Brief, E> {
        Ok(if it.is_empty() { Brief::Empty } else { Brief::Filled })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Brief, A::Error> {
        let mut brief = Brief::Empty;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            brief = Brief::Filled;
        }
        Ok(brief)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Brief, A::Error> {
        let mut brief = Brief::Empty;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            brief = Brief::Filled;
        }
        Ok(brief)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Gives one byte at a time, so that every word is cut.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(1);
            self.0.read(&mut buf[..n])
        }
    }

    #[test]
    fn numbers_of_python_that_are_no_json_pass() {
        let text = r#"{"a":[0.0, Infinity],"b":NaN,"c":-Infinity,"d":"NaN, Infinity","e":1}"#;
        let want = json!({"a": [0.0, {}], "b": {}, "c": -0.0, "d": "NaN, Infinity", "e": 1});
        assert_eq!(read_value(text.as_bytes(), Limits::CONFIG).unwrap(), want);
        assert_eq!(read_value(Slow(text.as_bytes()), Limits::CONFIG).unwrap(), want);
        for wrong in
            ["{\"a\":Nan}", "{\"a\":Inf}", "{\"a\":N}", "{\"a\":Infinite}", "{\"a\":NaNN}", "Infinity}"]
        {
            assert!(read_value(wrong.as_bytes(), Limits::CONFIG).is_err(), "{wrong}");
        }
    }
}
