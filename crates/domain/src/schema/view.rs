//! Types that say what they look like as JSON, and the macro that declares them.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};

use super::{described, named};
use crate::Timestamp;

/// The named schemas that a document's operations refer to.
pub type Components = BTreeMap<&'static str, Value>;

/// A type whose JSON has a known form.
pub trait Shape {
    /// Returns the schema of what serde writes for this type. Named schemas that it refers to are added to `all`.
    fn schema(all: &mut Components) -> Value;
}

/// One field of an object.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: &'static str,
    pub schema: Value,
    /// Whether the field may be missing.
    pub optional: bool,
}

/// An object's fields, for types whose fields may stand among those of another object.
pub trait Members {
    /// Writes the fields with their values.
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// Appends the fields with their schemas, in the order in which [`Self::put`] writes them.
    fn members(all: &mut Components, out: &mut Vec<Member>);
}

/// Writes the fields of `T` as one object.
#[derive(Debug, Clone, Copy)]
pub struct Closed<'a, T>(pub &'a T);

impl<T: Members> Serialize for Closed<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        self.0.put(&mut map)?;
        map.end()
    }
}

/// Returns the schema of an object with these fields and no others.
pub fn closed(members: Vec<Member>) -> Value {
    let required: Vec<&str> = members.iter().filter(|it| !it.optional).map(|it| it.name).collect();
    let mut schema = json!({ "type": "object" });
    let required = (!required.is_empty()).then(|| json!(required));
    let properties: Map<String, Value> =
        members.into_iter().map(|it| (it.name.to_owned(), it.schema)).collect();
    schema["properties"] = properties.into();
    if let Some(required) = required {
        schema["required"] = required;
    }
    schema["additionalProperties"] = false.into();
    schema
}

/// Returns a reference to the component `name`, and adds the component if it is not there yet.
pub fn component(
    all: &mut Components,
    name: &'static str,
    schema: impl FnOnce(&mut Components) -> Value,
) -> Value {
    if !all.contains_key(name) {
        // A place for it first, so that a type that contains itself ends.
        all.insert(name, Value::Null);
        let schema = schema(all);
        all.insert(name, schema);
    }
    named(name)
}

/// Adds what the doc comment of a field says to its schema. `lines` are the comment's lines.
pub fn describe(schema: Value, lines: &[&str]) -> Value {
    let text = lines.iter().map(|it| it.trim()).collect::<Vec<_>>().join(" ");
    if text.is_empty() { schema } else { described(schema, text.trim()) }
}

/// Returns the name of a field as JSON has it: without `r#`.
pub const fn field_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Declares a type that answers show: the type, its JSON and its schema come from one list of fields. The doc comment of a
/// field is its description in the `OpenAPI` document.
///
/// `struct KeyView: "Key"` gives the schema a name among the document's components; without a name it stands where it is
/// used. After the type of a field may stand
/// - `as …`: an expression for the schema, where the type does not say enough;
/// - `=> part`: the fields of the type stand among those of this object;
/// - `=> optional`: `None` is left out instead of being written as `null`;
/// - `=> hidden`: the field is not part of the JSON.
///
/// Attributes of serde are for types that are read back (`derive(Deserialize)`).
#[macro_export]
macro_rules! view {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident $(<$lifetime:lifetime>)? $(: $name:literal)? {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)*)])*
                $fvis:vis $field:ident: $ty:ty $(as $schema:expr)? $(=> $mode:ident)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $type $(<$lifetime>)? {
            $($(#[doc = $doc])* $(#[serde($($serde)*)])* $fvis $field: $ty,)*
        }

        impl $(<$lifetime>)? $crate::schema::Members for $type $(<$lifetime>)? {
            fn put<M: ::serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $($crate::view!(@put map, &self.$field, stringify!($field) $(, $mode)?);)*
                Ok(())
            }

            fn members(all: &mut $crate::schema::Components, out: &mut Vec<$crate::schema::Member>) {
                $($crate::view!(@member all, out, $ty, stringify!($field), [$($doc),*], [$($schema)?] $(, $mode)?);)*
            }
        }

        impl $(<$lifetime>)? ::serde::Serialize for $type $(<$lifetime>)? {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::schema::Closed(self).serialize(to)
            }
        }

        impl $(<$lifetime>)? $crate::schema::Shape for $type $(<$lifetime>)? {
            fn schema(all: &mut $crate::schema::Components) -> ::serde_json::Value {
                let whole = |all: &mut $crate::schema::Components| {
                    let mut members = Vec::new();
                    <Self as $crate::schema::Members>::members(all, &mut members);
                    $crate::schema::closed(members)
                };
                $crate::view!(@whole all, whole $(, $name)?)
            }
        }
    };
    (@whole $all:ident, $whole:ident) => { $whole($all) };
    (@whole $all:ident, $whole:ident, $name:literal) => { $crate::schema::component($all, $name, $whole) };
    (@put $map:ident, $value:expr, $name:expr) => {
        ::serde::ser::SerializeMap::serialize_entry($map, $crate::schema::field_name($name), $value)?
    };
    (@put $map:ident, $value:expr, $name:expr, part) => { $crate::schema::Members::put($value, $map)? };
    (@put $map:ident, $value:expr, $name:expr, hidden) => {};
    (@put $map:ident, $value:expr, $name:expr, optional) => {
        if let Some(value) = $value {
            ::serde::ser::SerializeMap::serialize_entry($map, $crate::schema::field_name($name), value)?;
        }
    };
    (@member $all:ident, $out:ident, $ty:ty, $name:expr, [$($doc:literal),*], [], part) => {
        <$ty as $crate::schema::Members>::members($all, $out)
    };
    (@member $all:ident, $out:ident, $ty:ty, $name:expr, [$($doc:literal),*], [], hidden) => {};
    (@member $all:ident, $out:ident, $ty:ty, $name:expr, [$($doc:literal),*], [$($schema:expr)?]) => {
        $crate::view!(@push $all, $out, $ty, $name, [$($doc),*], [$($schema)?], false)
    };
    (@member $all:ident, $out:ident, $ty:ty, $name:expr, [$($doc:literal),*], [$($schema:expr)?], optional) => {
        $crate::view!(@push $all, $out, <$ty as $crate::schema::Absent>::Inner, $name, [$($doc),*], [$($schema)?], true)
    };
    (@push $all:ident, $out:ident, $ty:ty, $name:expr, [$($doc:literal),*], [], $optional:literal) => {
        $crate::view!(@push $all, $out, $ty, $name, [$($doc),*], [<$ty as $crate::schema::Shape>::schema($all)], $optional)
    };
    (@push $all:ident, $out:ident, $ty:ty, $name:expr, [$($doc:literal),*], [$schema:expr], $optional:literal) => {{
        let schema = $crate::schema::describe($schema, &[$($doc),*]);
        $out.push($crate::schema::Member { name: $crate::schema::field_name($name), schema, optional: $optional });
    }};
}

/// What an optional field has if it is there.
pub trait Absent {
    type Inner;
}

impl<T> Absent for Option<T> {
    type Inner = T;
}

/// A time that is written as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rfc3339(pub Timestamp);

impl From<Timestamp> for Rfc3339 {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.rfc3339())
    }
}
