//! The values that fields of bodies and parameters of queries may have.

use std::borrow::Cow;

use gantry_domain::{
    KeyId, ModelId, OrgId, Role, Timestamp, UserId,
    audit::{Action, ObjectType},
    chat::ChatRole,
    key::KeyStatus,
    limit::LimitMode,
    model::Task,
    schema::{self, Components},
    usage::Outcome as Ending,
    words::either,
};
use serde_json::Value;

use super::{
    form::{Field, read},
    query::QueryValue,
};

impl QueryValue for String {
    fn allowed() -> Cow<'static, str> {
        "a text".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn schema(_: &mut Components) -> Value {
        schema::text()
    }
}

impl QueryValue for Timestamp {
    fn allowed() -> Cow<'static, str> {
        "an RFC 3339 time".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse_rfc3339(text)
    }

    fn schema(_: &mut Components) -> Value {
        schema::time()
    }
}

/// A name of 1 to `MAX` characters.
pub(crate) struct Name<const MAX: usize>;

impl<const MAX: usize> Field for Name<MAX> {
    type Value = String;

    fn allowed() -> Cow<'static, str> {
        read::named(MAX).into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<String> {
        read::name(MAX)(value)
    }

    fn schema(_: &mut Components) -> Value {
        schema::name(MAX)
    }
}

/// Any text.
pub(crate) struct Text;

impl Field for Text {
    type Value = String;

    fn allowed() -> Cow<'static, str> {
        "a text".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<String> {
        value.as_str().map(str::to_owned)
    }

    fn schema(_: &mut Components) -> Value {
        schema::text()
    }
}

/// One line of 1 to `MAX` characters.
pub(crate) struct Line<const MAX: usize>;

impl<const MAX: usize> Field for Line<MAX> {
    type Value = String;

    fn allowed() -> Cow<'static, str> {
        format!("a text of 1 to {MAX} characters in one line").into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<String> {
        read::line(MAX)(value)
    }

    fn schema(_: &mut Components) -> Value {
        schema::line(MAX)
    }
}

/// A time in the future, as RFC 3339 writes it.
pub(crate) struct Future;

impl Field for Future {
    type Value = Timestamp;

    fn allowed() -> Cow<'static, str> {
        "null, or an RFC 3339 time in the future".into()
    }

    fn read(value: &Value, now: Timestamp) -> Option<Timestamp> {
        read::time(value).filter(|at| *at > now)
    }

    fn schema(_: &mut Components) -> Value {
        schema::time()
    }
}

impl Field for bool {
    type Value = Self;

    fn allowed() -> Cow<'static, str> {
        "true or false".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<Self> {
        value.as_bool()
    }

    fn schema(_: &mut Components) -> Value {
        schema::flag()
    }
}

/// Ids of objects that a body refers to.
macro_rules! ids {
    ($($type:ty: $path:literal $allowed:literal;)+) => {$(
        impl Field for $type {
            type Value = Self;

            fn allowed() -> Cow<'static, str> {
                $allowed.into()
            }

            fn read(value: &Value, _: Timestamp) -> Option<Self> {
                read::id(value).map(Self)
            }

            fn schema(_: &mut Components) -> Value {
                schema::id_of($path)
            }
        }

        impl QueryValue for $type {
            fn allowed() -> Cow<'static, str> {
                "a positive whole number".into()
            }

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok().filter(|it| *it > 0).map(Self)
            }

            fn schema(_: &mut Components) -> Value {
                schema::id_of($path)
            }
        }
    )+};
}

ids! {
    OrgId: "orgs" "the id of an organisation";
    UserId: "users" "the id of a user";
    KeyId: "keys" "the id of a key";
    ModelId: "models" "the id of a model";
}

/// Enums that are written as words.
macro_rules! words {
    ($($type:ty),+ $(,)?) => {$(
        impl Field for $type {
            type Value = Self;

            fn allowed() -> Cow<'static, str> {
                either(&<$type>::WORDS).into()
            }

            fn read(value: &Value, _: Timestamp) -> Option<Self> {
                Self::parse(value.as_str()?)
            }

            fn schema(all: &mut Components) -> Value {
                <Self as schema::Shape>::schema(all)
            }
        }

        impl QueryValue for $type {
            fn allowed() -> Cow<'static, str> {
                <Self as Field>::allowed()
            }

            fn parse(text: &str) -> Option<Self> {
                <$type>::parse(text)
            }

            fn schema(all: &mut Components) -> Value {
                <Self as schema::Shape>::schema(all)
            }
        }
    )+};
}

words!(Action, ChatRole, Ending, KeyStatus, LimitMode, ObjectType, Role, Task);
