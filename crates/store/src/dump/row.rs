//! One row of a table in memory: the same values whichever database or dump it came from. Reads and writes the text
//! format of `COPY` (<https://www.postgresql.org/docs/current/sql-copy.html>).

use std::{io::Write as _, ops::Range};

use uuid::Uuid;

use crate::dump::{
    lexer::KEPT_CAPACITY,
    schema::{Column, Kind, Table},
};

/// A value. Booleans are the integers 0 and 1, a UUID is its 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

#[derive(Debug, Clone)]
enum Field {
    Null,
    Integer(i64),
    Text(Range<usize>),
    Bytes(Range<usize>),
}

/// A row, with its values in the order of the columns of [`Table`]. Its buffers are used again for the next row.
#[derive(Debug, Default, Clone)]
pub(crate) struct Row {
    text: String,
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

/// Why a text is no value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("an integer of 64 bits")]
    BigInt,
    #[error("an integer of 32 bits")]
    Integer,
    #[error("a boolean (`t` or `f`)")]
    Boolean,
    #[error("bytes (`\\x` and hexadecimal digits)")]
    Bytes,
    #[error("a UUID")]
    Uuid,
    #[error("a text in the escaped form of COPY")]
    Escape,
}

impl Row {
    /// Empties the row and makes room for `columns` values.
    pub(crate) fn clear(&mut self, columns: usize) {
        self.text.clear();
        self.text.shrink_to(KEPT_CAPACITY);
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.fields.clear();
        self.fields.resize(columns, Field::Null);
    }

    pub(crate) fn get(&self, column: usize) -> Value<'_> {
        match self.fields.get(column) {
            None | Some(Field::Null) => Value::Null,
            Some(Field::Integer(it)) => Value::Integer(*it),
            Some(Field::Text(range)) => Value::Text(&self.text[range.clone()]),
            Some(Field::Bytes(range)) => Value::Bytes(&self.bytes[range.clone()]),
        }
    }

    /// Returns an integer or a boolean; 0 for any other value.
    pub(crate) fn integer(&self, column: usize) -> i64 {
        if let Value::Integer(it) = self.get(column) { it } else { 0 }
    }

    /// Returns a text; an empty one for any other value.
    pub(crate) fn text(&self, column: usize) -> &str {
        if let Value::Text(it) = self.get(column) { it } else { "" }
    }

    pub(crate) fn set_null(&mut self, column: usize) {
        self.fields[column] = Field::Null;
    }

    pub(crate) fn set_integer(&mut self, column: usize, value: i64) {
        self.fields[column] = Field::Integer(value);
    }

    pub(crate) fn set_text(&mut self, column: usize, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.fields[column] = Field::Text(start..self.text.len());
    }

    pub(crate) fn set_bytes(&mut self, column: usize, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.fields[column] = Field::Bytes(start..self.bytes.len());
    }

    /// Sets a value from its text, as Postgres writes it. The other legal forms are those of SQLite (`1` and `0` for
    /// booleans, `\x…` for a UUID).
    pub(crate) fn parse(&mut self, at: usize, kind: Kind, text: &str) -> Result<(), Unfit> {
        match kind {
            Kind::BigInt => self.set_integer(at, integer(text).ok_or(Unfit::BigInt)?),
            Kind::Integer => {
                let value = integer(text).filter(|it| i32::try_from(*it).is_ok());
                self.set_integer(at, value.ok_or(Unfit::Integer)?);
            }
            Kind::Boolean => match text {
                "t" | "true" | "1" => self.set_integer(at, 1),
                "f" | "false" | "0" => self.set_integer(at, 0),
                _ => return Err(Unfit::Boolean),
            },
            Kind::Text => self.set_text(at, text),
            Kind::Bytes => {
                let digits = text.strip_prefix("\\x").ok_or(Unfit::Bytes)?;
                self.parse_hex(at, digits).ok_or(Unfit::Bytes)?;
            }
            Kind::Uuid => match text.strip_prefix("\\x") {
                Some(digits) if digits.len() == 32 => self.parse_hex(at, digits).ok_or(Unfit::Uuid)?,
                _ if text.len() == 36 => {
                    let id = Uuid::try_parse(text).map_err(|_| Unfit::Uuid)?;
                    self.set_bytes(at, id.as_bytes());
                }
                _ => return Err(Unfit::Uuid),
            },
        }
        Ok(())
    }

    /// Sets bytes from their hexadecimal digits; `None` if they are none.
    pub(crate) fn parse_hex(&mut self, at: usize, digits: &str) -> Option<()> {
        let start = self.bytes.len();
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        self.bytes.reserve(pairs.len());
        for [high, low] in pairs {
            self.bytes.push(digit(*high)? << 4 | digit(*low)?);
        }
        self.fields[at] = Field::Bytes(start..self.bytes.len());
        rest.is_empty().then_some(())
    }

    /// Sets a value from a field of a line of `COPY`.
    pub(crate) fn parse_copy(&mut self, at: usize, kind: Kind, field: &str) -> Result<(), Unfit> {
        if field == "\\N" {
            self.set_null(at);
            return Ok(());
        }
        if !field.contains('\\') {
            return self.parse(at, kind, field);
        }
        if kind == Kind::Text {
            let start = self.text.len();
            unescape(field, &mut self.text)?;
            self.fields[at] = Field::Text(start..self.text.len());
            return Ok(());
        }
        // The only other escape is that of the backslash in front of hexadecimal digits.
        match field.strip_prefix('\\') {
            Some(rest) if rest.starts_with('\\') && !rest[1..].contains('\\') => self.parse(at, kind, rest),
            _ => Err(Unfit::Escape),
        }
    }

    /// Returns the first column that is NULL and must not be.
    pub(crate) fn missing<'a>(&self, table: &'a Table) -> Option<&'a Column> {
        let pairs = self.fields.iter().zip(&table.columns);
        pairs.filter(|(field, column)| matches!(field, Field::Null) && !column.nullable).map(|it| it.1).next()
    }

    /// Writes the row as a line of `COPY`.
    pub(crate) fn write_copy(&self, table: &Table, out: &mut Vec<u8>) {
        for (at, column) in table.columns.iter().enumerate() {
            if at > 0 {
                out.push(b'\t');
            }
            match (self.get(at), column.kind) {
                (Value::Null, _) => out.extend_from_slice(b"\\N"),
                (Value::Integer(it), Kind::Boolean) => out.push(if it == 0 { b'f' } else { b't' }),
                (Value::Integer(it), _) => write_integer(it, out),
                (Value::Text(it), _) => escape(it, out),
                (Value::Bytes(it), Kind::Uuid) => write_uuid(it, out),
                (Value::Bytes(it), _) => {
                    out.extend_from_slice(b"\\\\x");
                    write_hex(it, out);
                }
            }
        }
        out.push(b'\n');
    }

    /// Appends bytes that are the same for the same values, and differ for others.
    pub(crate) fn canonical(&self, out: &mut Vec<u8>) {
        for at in 0..self.fields.len() {
            match self.get(at) {
                Value::Null => out.push(0),
                Value::Integer(it) => {
                    out.push(1);
                    out.extend_from_slice(&it.to_le_bytes());
                }
                Value::Text(it) => {
                    out.push(2);
                    out.extend_from_slice(&(it.len() as u64).to_le_bytes());
                    out.extend_from_slice(it.as_bytes());
                }
                Value::Bytes(it) => {
                    out.push(3);
                    out.extend_from_slice(&(it.len() as u64).to_le_bytes());
                    out.extend_from_slice(it);
                }
            }
        }
    }
}

/// Reads an integer in decimal digits, with a minus sign or none.
fn integer(text: &str) -> Option<i64> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn write_integer(value: i64, out: &mut Vec<u8>) {
    // Writing to a Vec can't fail.
    let _ = write!(out, "{value}");
}

fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn write_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    for (at, part) in [(0, 4), (4, 6), (6, 8), (8, 10), (10, bytes.len())].into_iter().enumerate() {
        if at > 0 {
            out.push(b'-');
        }
        write_hex(bytes.get(part.0..part.1).unwrap_or_default(), out);
    }
}

/// Writes a text with the escapes of `COPY`.
fn escape(text: &str, out: &mut Vec<u8>) {
    let special = |it: &u8| *it == b'\\' || (8..=13).contains(it);
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        let letter = match rest[at] {
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            other => other,
        };
        out.extend_from_slice(&[b'\\', letter]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Takes the escapes of [`escape`] out of a text. The others that `COPY` knows are refused, because no dump has them.
fn unescape(field: &str, out: &mut String) -> Result<(), Unfit> {
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let mut letters = after.chars();
        out.push(match letters.next() {
            Some('\\') => '\\',
            Some('b') => '\u{8}',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('v') => '\u{b}',
            Some('f') => '\u{c}',
            Some('r') => '\r',
            _ => return Err(Unfit::Escape),
        });
        rest = letters.as_str();
    }
    out.push_str(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(kind: Kind, field: &str) -> Result<Row, Unfit> {
        let mut row = Row::default();
        row.clear(1);
        row.parse_copy(0, kind, field).map(|()| row)
    }

    #[test]
    fn each_legal_text_is_the_same_value() {
        let id = "0192f0c1-0000-7000-8000-00000000000a";
        let bytes = *Uuid::try_parse(id).unwrap().as_bytes();
        for (kind, fields, value) in [
            (Kind::Boolean, &["t", "1", "true"][..], Value::Integer(1)),
            (Kind::Boolean, &["f", "0", "false"], Value::Integer(0)),
            (Kind::BigInt, &["-9223372036854775808"], Value::Integer(i64::MIN)),
            (Kind::Integer, &["-2147483648"], Value::Integer(-2_147_483_648)),
            (Kind::Text, &["a\\tb\\\\N\\n\\r\\b\\f\\v\\\\."], Value::Text("a\tb\\N\n\r\u{8}\u{c}\u{b}\\.")),
            (Kind::Text, &[""], Value::Text("")),
            (Kind::Text, &["\\N"], Value::Null),
            (Kind::Text, &["\\\\N"], Value::Text("\\N")),
            (Kind::Bytes, &["\\\\x00fF", "\\\\x00ff"], Value::Bytes(&[0, 255])),
            (Kind::Bytes, &["\\\\x"], Value::Bytes(&[])),
            (Kind::Uuid, &[id], Value::Bytes(&bytes)),
            (Kind::Uuid, &["\\\\x0192f0c100007000800000000000000a"], Value::Bytes(&bytes)),
        ] {
            for field in fields {
                assert_eq!(parsed(kind, field).unwrap().get(0), value, "{field}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_its_column_is_refused() {
        for (kind, fields) in [
            (Kind::BigInt, &["", "+1", "1.0", "9223372036854775808", " 1", "0x1", "t", "\\\\x1"][..]),
            (Kind::Integer, &["2147483648", "-2147483649"]),
            (Kind::Boolean, &["", "T", "yes", "2", "\\t"]),
            (Kind::Bytes, &["", "00", "\\\\x0", "\\\\xzz", "\\\\x\\\\x", "\\x00", "x\\\\x"]),
            (
                Kind::Uuid,
                &[
                    "",
                    "0192f0c1000070008000000000000000",
                    "{0192f0c1-0000-7000-8000-00000000000a}",
                    "\\\\x00",
                ],
            ),
            (Kind::Text, &["\\", "\\q", "\\x41", "\\101", "\\N\\N"]),
        ] {
            for field in fields {
                assert!(parsed(kind, field).is_err(), "{kind:?} {field}");
            }
        }
    }

    #[test]
    fn a_line_reads_as_it_was_written() {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind, nullable: true };
        let columns = vec![column("a", Kind::Text), column("b", Kind::Bytes), column("c", Kind::Uuid)];
        let table = Table { name: "t".to_owned(), columns, key: 0, counts: false };
        let text: String = (1..300).filter_map(char::from_u32).chain("\\N\\.\n\\.\n".chars()).collect();
        let mut row = Row::default();
        row.clear(3);
        row.set_text(0, &text);
        row.set_bytes(1, &(0..=255).collect::<Vec<u8>>());
        row.set_bytes(2, &[7; 16]);
        let mut line = Vec::new();
        row.write_copy(&table, &mut line);
        let line = String::from_utf8(line).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let mut read = Row::default();
        read.clear(3);
        for (at, field) in line.trim_end_matches('\n').split('\t').enumerate() {
            read.parse_copy(at, table.columns[at].kind, field).unwrap();
        }
        let (mut one, mut two) = (Vec::new(), Vec::new());
        row.canonical(&mut one);
        read.canonical(&mut two);
        assert_eq!(one, two);
    }
}
