//! `GET /admin/engines/spec`: the field table, for forms.

use axum::Json;
use gantry_domain::model::fields::{self, Default, Field, Kind, SetBy};
use serde_json::{Value, json};

use crate::{error::Outcome, extract::Params};

/// Every field of a model with type, bounds, default, unit and help
pub(crate) async fn spec(params: Params) -> Outcome<Json<Value>> {
    params.finish()?;
    Ok(Json(fields::all().map(row).collect()))
}

fn row(field: &Field) -> Value {
    let default = match field.default {
        Default::Engine => Value::Null,
        Default::Bool(it) => it.into(),
        Default::Int(it) => it.into(),
        Default::Float(it) => it.into(),
        Default::Text(it) => it.into(),
    };
    let kind = match field.kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::IntOneOf(allowed) => json!({ "type": "integer", "enum": allowed }),
        Kind::Float { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Text { max } | Kind::Lines { max } => json!({ "type": "string", "maxLength": max }),
        Kind::OneOf(allowed) => json!({ "type": "string", "enum": allowed }),
        Kind::Repo => json!({ "type": "string", "format": "hub-repository", "maxLength": 200 }),
        Kind::Path => json!({ "type": "string", "format": "relative-path", "maxLength": 1000 }),
        Kind::ModelPath => json!({ "type": "string", "format": "model-path", "maxLength": 1000 }),
        Kind::NamedPaths { max } => {
            json!({ "type": "array", "maxItems": max, "items": { "type": "string", "format": "named-path" } })
        }
        Kind::IntList { min, max } => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": min, "maximum": max } })
        }
        Kind::TextList { max } => json!({ "type": "array", "maxItems": max, "items": { "type": "string" } }),
        Kind::TextMap => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Object => json!({ "type": "object" }),
    };
    json!({
        "name": field.name, "engine_type": field.engine, "group": field.group, "schema": kind, "default": default,
        "unit": field.unit, "help": field.help, "owner_only": field.set_by == SetBy::Owner,
        "examples": field.examples,
    })
}
