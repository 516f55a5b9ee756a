//! `GET /admin/engines/spec`: the field table, for forms.

use axum::Json;
use gantry_domain::model::fields::{self, Field, Own, SetBy};
use serde_json::{Value, json};

use crate::{doc::field_schema, error::Outcome, operation::Params};

/// Every field of a model with type, bounds, default, unit and help
pub(crate) async fn spec(params: Params) -> Outcome<Json<Value>> {
    params.finish()?;
    Ok(Json(fields::all().map(row).collect()))
}

fn row(field: &Field) -> Value {
    let own = match field.own {
        Own::Nothing => Value::Null,
        Own::Same | Own::LeftOut => "the same".into(),
        Own::Other(words) => words.into(),
    };
    json!({
        "name": field.name, "engine_type": field.engine, "group": field.group, "schema": field_schema(field), "default": field.default.value(),
        "default_task": field.default_task, "engine_default": own,
        "tuned": field.tuned.map(|it| json!({ "value": it.value.value(), "why": it.why, "task": it.task })),
        "unit": field.unit, "help": field.help, "owner_only": field.set_by == SetBy::Owner,
        "examples": field.examples,
    })
}
