//! What types look like as JSON: those of the standard library, and the ids and enums of this crate.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};

use super::{
    Components, Rfc3339, Shape, anything, component, count, flag, formatted, id, list, map, nullable, number,
    one_of, text, time,
};
use crate::{KeyId, ModelId, OrgId, TokenId, UserId};

macro_rules! shapes {
    ($($schema:expr => $($type:ty),+;)+) => {$($(
        impl Shape for $type {
            fn schema(_: &mut Components) -> Value {
                $schema
            }
        }
    )+)+};
}

shapes! {
    text() => String, str, Cow<'static, str>;
    flag() => bool;
    // Counts; a number that may be negative declares its schema.
    count() => u16, u32, u64, usize, i64;
    number() => f64;
    json!({ "type": "array", "items": number(), "minItems": 3, "maxItems": 3 }) => [f64; 3];
    anything() => Value;
    map(anything()) => Map<String, Value>;
    time() => Rfc3339;
    formatted("uuid") => uuid::Uuid;
    id() => KeyId, ModelId, OrgId, TokenId, UserId;
}

impl<T: Shape> Shape for Option<T> {
    fn schema(all: &mut Components) -> Value {
        nullable(T::schema(all))
    }
}

impl<T: Shape + ?Sized> Shape for &T {
    fn schema(all: &mut Components) -> Value {
        T::schema(all)
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn schema(all: &mut Components) -> Value {
        list(T::schema(all))
    }
}

/// JSON writes numbers as texts where they are keys.
impl<K, T: Shape> Shape for BTreeMap<K, T> {
    fn schema(all: &mut Components) -> Value {
        map(T::schema(all))
    }
}

/// Declares [`Shape`] for enums that are written as words: those with `ALL` and `as_str`. A name makes the list of words a
/// component of the document.
macro_rules! shapes_of_words {
    ($($type:ty $(: $name:literal)?),+ $(,)?) => {$(
        impl Shape for $type {
            fn schema(all: &mut Components) -> Value {
                let words: Vec<&str> = <$type>::ALL.iter().map(|it| it.as_str()).collect();
                shapes_of_words!(@schema all, one_of(&words) $(, $name)?)
            }
        }
    )+};
    (@schema $all:ident, $schema:expr) => {{ let _ = $all; $schema }};
    (@schema $all:ident, $schema:expr, $name:literal) => { component($all, $name, |_| $schema) };
}

shapes_of_words! {
    crate::audit::Action,
    crate::audit::ActorType,
    crate::audit::ObjectType,
    crate::chat::ChatRole,
    crate::key::KeyStatus,
    crate::limit::LimitMode: "LimitMode",
    crate::diagnosis::Severity,
    crate::machine::GpuVendor,
    crate::model::EngineKind: "Engine",
    crate::model::State: "ModelState",
    crate::model::Task: "Task",
    crate::Role: "Role",
    crate::usage::Outcome,
}
