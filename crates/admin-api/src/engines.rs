//! `GET /admin/engines/spec`: the field table, for forms.

use axum::Json;
use gantry_domain::{
    model::{
        EngineKind, Task,
        fields::{self, Field, Own, SetBy},
    },
    schema::{anything, field as schema_of, list, text},
    view,
};
use serde_json::{Value, json};

use crate::{error::Outcome, operation::Operation};

view! {
    /// A row of the field table.
    #[derive(Debug)]
    pub(crate) struct FieldView {
        name: &'static str,
        /// `null`: both engines have it.
        engine_type: Option<EngineKind>,
        /// The heading under which forms show it.
        group: &'static str,
        /// JSON Schema of the value.
        schema: Value as json!({ "type": "object" }),
        default: Option<Value> as anything(),
        /// The default is for models with this task only; `null`: for all.
        default_task: Option<Task>,
        /// What the engine does by itself, in words; `null` without a default.
        engine_default: Option<&'static str>,
        /// The value that the profile `tuned` sets, for models with this task only, if one is named.
        tuned: Option<TunedView>,
        unit: Option<&'static str>,
        help: &'static str,
        owner_only: bool,
        examples: &'static [&'static str] as list(text()),
    }
}

view! {
    #[derive(Debug)]
    struct TunedView {
        value: Option<Value> as anything(),
        why: &'static str,
        task: Option<Task>,
    }
}

impl From<&Field> for FieldView {
    fn from(field: &Field) -> Self {
        let engine_default = match field.own {
            Own::Nothing => None,
            Own::Same | Own::LeftOut => Some("the same"),
            Own::Other(words) => Some(words),
        };
        let tuned = field.tuned.map(|it| TunedView { value: it.value.value(), why: it.why, task: it.task });
        Self {
            name: field.name,
            engine_type: field.engine,
            group: field.group,
            schema: schema_of(field),
            default: field.default.value(),
            default_task: field.default_task,
            engine_default,
            tuned,
            unit: field.unit,
            help: field.help,
            owner_only: field.set_by == SetBy::Owner,
            examples: field.examples,
        }
    }
}

pub(crate) const SPEC: Operation =
    Operation::new("listModelFields", "Every field of a model with type, bounds, default, unit and help");

pub(crate) async fn spec() -> Outcome<Json<Vec<FieldView>>> {
    Ok(Json(fields::all().map(FieldView::from).collect()))
}
