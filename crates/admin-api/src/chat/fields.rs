//! The fields of bodies about chats.

use std::borrow::Cow;

use gantry_domain::{
    Timestamp,
    model::EngineKind,
    schema::{self, Components},
};
use serde_json::{Map, Value, json};

use crate::operation::Field;

/// Longest message, in characters.
const MAX_CONTENT: usize = 200_000;
/// Most bytes of `constraints` or `metrics` as JSON.
const MAX_OBJECT: usize = 8 << 10;

/// The engine that serves a chat's model.
pub(crate) struct ChatEngine;

impl Field for ChatEngine {
    type Value = EngineKind;

    fn allowed() -> Cow<'static, str> {
        "`vllm`, `llamacpp`, or `null` for an engine of the registry".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<EngineKind> {
        EngineKind::parse(value.as_str()?)
    }

    fn schema(all: &mut Components) -> Value {
        let words = EngineKind::ALL.map(EngineKind::as_str);
        let ranks = EngineKind::ALL.map(EngineKind::rank);
        schema::component(all, "EngineWord", |_| schema::one_of(&[words, ranks].concat()))
    }
}

/// The text of a message.
pub(crate) struct Content;

impl Field for Content {
    type Value = String;

    fn allowed() -> Cow<'static, str> {
        format!("text of at most {MAX_CONTENT} characters without NUL").into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<String> {
        let fits = |it: &&str| it.chars().count() <= MAX_CONTENT && !it.contains('\0');
        value.as_str().filter(fits).map(str::to_owned)
    }

    fn schema(_: &mut Components) -> Value {
        schema::no_nul(schema::text_of(0, MAX_CONTENT))
    }
}

/// An object that is stored as it comes.
pub(crate) struct SmallObject;

impl Field for SmallObject {
    type Value = Map<String, Value>;

    fn allowed() -> Cow<'static, str> {
        "an object of at most 8 KiB".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<Map<String, Value>> {
        let map = value.as_object()?;
        (value.to_string().len() <= MAX_OBJECT).then(|| map.clone())
    }

    fn schema(_: &mut Components) -> Value {
        json!({ "type": "object" })
    }
}

/// An object of any size that the body may have.
pub(crate) struct AnyObject;

impl Field for AnyObject {
    type Value = Map<String, Value>;

    fn allowed() -> Cow<'static, str> {
        "an object".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<Map<String, Value>> {
        value.as_object().cloned()
    }

    fn take(value: Value, _: Timestamp) -> Result<Map<String, Value>, Value> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(other),
        }
    }

    fn schema(_: &mut Components) -> Value {
        json!({ "type": "object" })
    }
}

/// The id of a message, or 0.
pub(crate) struct MessageId;

impl Field for MessageId {
    type Value = i64;

    fn allowed() -> Cow<'static, str> {
        "the id of a message, or 0".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<i64> {
        value.as_i64().filter(|it| *it >= 0)
    }

    fn schema(_: &mut Components) -> Value {
        schema::whole(0, i64::MAX)
    }
}
