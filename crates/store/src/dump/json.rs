//! Reads a row from a JSON array, which is the fastest way out of SQLite: one value for each row, and not one for each
//! column, has to be copied between threads.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};

use crate::dump::{
    row::Row,
    schema::{Column, Kind, Table},
};

/// Returns the expression of SQLite that makes the array of a row.
pub(crate) fn expression(table: &Table) -> String {
    let value = |column: &Column| {
        let name = &column.name;
        match column.kind {
            Kind::Bytes | Kind::Uuid if column.nullable => format!("IIF({name} IS NULL, NULL, HEX({name}))"),
            // JSON has no bytes.
            Kind::Bytes | Kind::Uuid => format!("HEX({name})"),
            Kind::BigInt | Kind::Integer | Kind::Boolean | Kind::Text => name.clone(),
        }
    };
    let values: Vec<String> = table.columns.iter().map(value).collect();
    format!("JSON_ARRAY({})", values.join(", "))
}

/// Reads the array that [`expression`] makes.
///
/// # Errors
/// A value is not one of its column.
pub(crate) fn read(text: &str, table: &Table, row: &mut Row) -> serde_json::Result<()> {
    row.clear(table.columns.len());
    let mut from = serde_json::Deserializer::from_str(text);
    from.deserialize_seq(Values { table, row })
}

struct Values<'a> {
    table: &'a Table,
    row: &'a mut Row,
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row of `{}`", self.table.name)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        for (at, column) in self.table.columns.iter().enumerate() {
            let value = One { at, column, row: self.row };
            values.next_element_seed(value)?.ok_or_else(|| A::Error::invalid_length(at, &"a row"))?;
        }
        Ok(())
    }
}

struct One<'a> {
    at: usize,
    column: &'a Column,
    row: &'a mut Row,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of `{}`", self.column.name)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.row.set_null(self.at);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.column.kind {
            Kind::BigInt | Kind::Integer | Kind::Boolean => {
                self.row.set_integer(self.at, value);
                Ok(())
            }
            Kind::Text | Kind::Bytes | Kind::Uuid => Err(E::invalid_type(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        let signed = i64::try_from(value);
        self.visit_i64(signed.map_err(|_| E::custom("a number that is too large"))?)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        match self.column.kind {
            Kind::Text => {
                self.row.set_text(self.at, value);
                Ok(())
            }
            Kind::Bytes | Kind::Uuid => {
                self.row.parse_hex(self.at, value).ok_or_else(|| E::custom("no hexadecimal digits"))
            }
            Kind::BigInt | Kind::Integer | Kind::Boolean => {
                Err(E::invalid_type(Unexpected::Str("a text"), &self))
            }
        }
    }
}
