//! `GET /admin/engines/spec`: the field table, for forms.

use axum::Json;
use gantry_domain::model::fields::{self, Default, Field, SetBy};
use serde_json::{Value, json};

use crate::{doc::field_schema, error::Outcome, extract::Params};

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
    json!({
        "name": field.name, "engine_type": field.engine, "group": field.group, "schema": field_schema(field), "default": default,
        "unit": field.unit, "help": field.help, "owner_only": field.set_by == SetBy::Owner,
        "examples": field.examples,
    })
}
