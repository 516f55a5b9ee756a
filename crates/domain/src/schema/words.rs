//! Schemas by name: text, numbers, lists and objects, with the bounds that this API uses.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    model::{
        check::NOT_DEFAULTS,
        fields::{Field, Kind},
    },
    name as names,
};

/// Text without control characters and outer blanks: what `read::line` takes.
const NAME: &str = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$";
/// Text as [`NAME`] allows it, or no text.
const NAME_OR_NOTHING: &str = r"^([^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?)?$";
/// Text that can stand behind an option of an engine: in one line, or in several.
const WORD: &str = r"^[^\x00-\x1f\x7f-\x9f-][^\x00-\x1f\x7f-\x9f]*$";
const LINES: &str = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f-][^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$";

/// Describes a name. The format forbids invisible characters, which no pattern that all readers know can express.
pub fn name(max: usize) -> Value {
    named_form(json!({ "type": "string", "minLength": 1, "maxLength": max, "pattern": NAME }))
}

/// A name, or an empty text.
pub fn name_or_nothing(max: usize) -> Value {
    named_form(json!({ "type": "string", "maxLength": max, "pattern": NAME_OR_NOTHING }))
}

fn named_form(mut schema: Value) -> Value {
    schema["format"] = "name".into();
    let rule = names::RULE;
    schema["description"] = format!("{}{}.", rule[..1].to_uppercase(), &rule[1..]).into();
    schema
}

/// Text in one line.
pub fn line(max: usize) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": max, "pattern": NAME })
}

/// Any text.
pub fn text() -> Value {
    json!({ "type": "string" })
}

/// Text with `min` to `max` characters.
pub fn text_of(min: usize, max: usize) -> Value {
    json!({ "type": "string", "minLength": min, "maxLength": max })
}

/// Forbids NUL characters, which a database can't keep.
pub fn no_nul(mut schema: Value) -> Value {
    schema["pattern"] = r"^[^\x00]*$".into();
    schema
}

/// A text that programs make and read.
pub fn word(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

/// Text of a format that JSON Schema, or this document, has a word for.
pub fn formatted(format: &str) -> Value {
    json!({ "type": "string", "format": format })
}

/// Marks a text as one that tools hide.
pub fn secret(mut schema: Value) -> Value {
    schema["format"] = "password".into();
    schema
}

/// The id of a row: a positive whole number.
pub fn id() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": i64::MAX })
}

/// An id in a request: it names an object of this kind (the word in the object's path), which may not be there, or not
/// for this caller.
pub fn id_of(kind: &str) -> Value {
    of_object(kind, id())
}

/// Like [`id_of`], for an id of another form.
pub fn of_object(kind: &str, mut schema: Value) -> Value {
    schema[REFERS_TO] = kind.into();
    schema
}

/// The keyword that names the kind of object.
const REFERS_TO: &str = "x-gantry-object";

/// Whether a request of this form names other objects.
pub fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key(REFERS_TO) || map.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// A whole number within bounds.
pub fn whole(min: i64, max: i64) -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": min, "maximum": max })
}

/// A number of things.
pub fn count() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 0 })
}

/// Any number.
pub fn number() -> Value {
    json!({ "type": "number" })
}

/// A number from 0 to 1.
pub fn share() -> Value {
    json!({ "type": "number", "minimum": 0, "maximum": 1 })
}

/// `true` or `false`.
pub fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// A flag in a query string that is on unless it is said otherwise.
pub fn query_flag_on() -> Value {
    defaulted(one_of(&["true", "false", "1", "0"]), "true")
}

/// A flag in a query string.
pub fn query_flag() -> Value {
    defaulted(one_of(&["true", "false", "1", "0"]), "false")
}

/// A time as RFC 3339 writes it.
pub fn time() -> Value {
    formatted("date-time")
}

/// Milliseconds since 1970.
pub fn epoch_ms() -> Value {
    json!({ "type": "integer", "format": "int64", "description": "Milliseconds since 1970." })
}

/// One of these words.
pub fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

/// One of the words that these values are written as.
pub fn words(values: &[impl Serialize]) -> Value {
    json!({ "type": "string", "enum": values })
}

/// This word.
pub fn constant(word: &str) -> Value {
    json!({ "type": "string", "const": word })
}

/// A list of such entries.
pub fn list(entry: Value) -> Value {
    let mut schema = json!({ "type": "array" });
    schema["items"] = entry;
    schema
}

/// Any JSON value.
pub fn anything() -> Value {
    json!({})
}

/// An object with keys that nobody knows beforehand.
pub fn map(values: Value) -> Value {
    let mut schema = json!({ "type": "object" });
    schema["additionalProperties"] = values;
    schema
}

/// Returns the schema extended by `null`.
pub fn nullable(mut schema: Value) -> Value {
    if let Some(kinds) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        kinds.push(json!({ "type": "null" }));
        return schema;
    }
    let Some(kind) = schema.get("type").and_then(Value::as_str) else {
        return json!({ "anyOf": [schema, { "type": "null" }] });
    };
    schema["type"] = json!([kind, "null"]);
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    schema
}

/// What counts if the field is not there.
pub fn defaulted(mut schema: Value, default: impl Into<Value>) -> Value {
    schema["default"] = default.into();
    schema
}

/// A schema with a description.
pub fn described(mut schema: Value, text: &str) -> Value {
    schema["description"] = text.into();
    schema
}

/// A schema of the components.
pub fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn closed<'a>(required: &[&str], fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let properties: Map<String, Value> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    if required_is_empty(&schema)
        && let Some(map) = schema.as_object_mut()
    {
        map.shift_remove("required");
    }
    schema
}

fn required_is_empty(schema: &Value) -> bool {
    schema["required"].as_array().is_none_or(Vec::is_empty)
}

/// A request's object: nothing but these fields.
pub fn request<'a>(required: &[&str], fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    closed(required, fields)
}

/// An answer's object: all of these fields, and no others.
pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let fields: Vec<_> = fields.into_iter().collect();
    closed(&fields.iter().map(|it| it.0).collect::<Vec<_>>(), fields)
}

/// An answer's object whose fields may be missing if `optional` has them.
pub fn object_but<'a>(optional: &[&str], fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let fields: Vec<_> = fields.into_iter().collect();
    let required: Vec<&str> = fields.iter().map(|it| it.0).filter(|it| !optional.contains(it)).collect();
    closed(&required, fields)
}

/// One of the server-sent events of a stream; `schema` describes its data. (Before `OpenAPI` 3.2 the schema of such an
/// answer stands for each event.)
pub fn event(schema: Value) -> Value {
    let name = described(text(), "What the event is about; `message` if it does not say.");
    object_but(
        &["event", "id", "retry"],
        [("event", name), ("id", text()), ("retry", count()), ("data", schema)],
    )
}

/// Text that is JSON of this form.
pub fn json_text(schema: Value) -> Value {
    let mut text = json!({ "type": "string", "contentMediaType": "application/json" });
    text["contentSchema"] = schema;
    text
}

/// `{"id": …, "status": "deleted"}`.
pub fn deleted(id: Value) -> Value {
    object([("id", id), ("status", constant("deleted"))])
}

/// `{"status": "ok"}`.
pub fn done() -> Value {
    object([("status", constant("ok"))])
}

/// What the reader of a model's field takes, by its row of the field table.
pub fn field(field: &Field) -> Value {
    match field.kind {
        Kind::Bool => flag(),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::IntOneOf(allowed) => json!({ "type": "integer", "enum": allowed }),
        Kind::Float { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Text { max } => json!({ "type": "string", "minLength": 1, "maxLength": max, "pattern": WORD }),
        Kind::Lines { max } => {
            json!({ "type": "string", "minLength": 1, "maxLength": max, "pattern": LINES })
        }
        Kind::OneOf(allowed) => one_of(allowed),
        Kind::Repo => {
            json!({ "type": "string", "format": "hub-repository", "minLength": 1, "maxLength": 200 })
        }
        Kind::Path => {
            json!({ "type": "string", "format": "relative-path", "minLength": 1, "maxLength": 1000 })
        }
        Kind::ModelPath => {
            json!({ "type": "string", "format": "model-path", "minLength": 1, "maxLength": 1008 })
        }
        Kind::RepoOrPath => {
            json!({ "type": "string", "format": "repository-or-path", "minLength": 1, "maxLength": 1008 })
        }
        Kind::NamedPaths { max } => {
            json!({ "type": "array", "maxItems": max, "items": { "type": "string", "format": "named-path" } })
        }
        Kind::IntList { min, max } => json!({
            "type": "array", "maxItems": 64, "uniqueItems": true, "items": { "type": "integer", "minimum": min, "maximum": max }
        }),
        Kind::TextList { max } => json!({
            "type": "array", "maxItems": max,
            "items": { "type": "string", "maxLength": 4000, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" },
        }),
        Kind::TextMap => json!({
            "type": "object", "maxProperties": 200,
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
            "additionalProperties":
                { "type": "string", "maxLength": 4000, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" },
        }),
        Kind::Object => json!({ "type": "object", "propertyNames": { "not": { "enum": NOT_DEFAULTS } } }),
    }
}
