//! The bodies that make and change models: the columns of a record, the fields of the field table, and wishes.

use std::borrow::Cow;

use gantry_domain::{
    Timestamp,
    model::{EngineKind, ModelConfig, Task, fields, identity, tuned},
    schema::{self, Components, Member, closed, component, described, nullable, one_of},
};
use serde_json::{Map, Value, json};

use crate::operation::{Field, Fields, Form, form};

/// The body of a create request, and of a preview of one.
pub(crate) type NewModel = ModelForm<true>;
/// The body of a change request.
pub(crate) type ChangedModel = ModelForm<false>;

/// A body whose wishes are read. Its columns and settings are as they came, since only a whole draft can be checked
/// ([`ModelDraft`](gantry_domain::model::ModelDraft)): that of a new model after its files were looked at, that of a
/// change against the record.
pub(crate) struct ModelForm<const NEW: bool> {
    pub(super) wish: Wish,
    pub(super) body: Map<String, Value>,
}

impl<const NEW: bool> Form for ModelForm<NEW> {
    fn read(fields: &mut Fields) -> Option<Self> {
        let wish = Wish::read(fields)?;
        Some(Self { wish, body: fields.rest() })
    }

    /// Those that the bodies for all engines have.
    fn members(all: &mut Components, out: &mut Vec<Member>) {
        for it in identity::COLUMNS {
            let schema = described(it.schema(all), it.help);
            out.push(Member { name: it.name, schema, optional: true });
        }
        Wish::members(all, out);
    }

    fn schema(all: &mut Components) -> Value {
        let [vllm, llamacpp] = EngineKind::ALL;
        if NEW {
            return json!({ "oneOf": [
                component(all, "VllmModelForm", |all| Self::of_engine(all, vllm)),
                component(all, "LlamacppModelForm", |all| Self::of_engine(all, llamacpp)),
            ] });
        }
        // The record decides which of the two it is.
        json!({ "anyOf": [
            component(all, "VllmModelChange", |all| Self::of_engine(all, vllm)),
            component(all, "LlamacppModelChange", |all| Self::of_engine(all, llamacpp)),
        ] })
    }
}

impl<const NEW: bool> ModelForm<NEW> {
    /// Returns the schema of a body for a model that this engine serves. `null` unsets a setting.
    fn of_engine(all: &mut Components, engine: EngineKind) -> Value {
        let mut members = Vec::new();
        Self::members(all, &mut members);
        for it in members.iter_mut().filter(|it| it.name == "engine_type") {
            it.schema = one_of(&[engine.as_str(), engine.rank()]);
            // It decides which of the two forms a new model's body is; without it, the files do.
            it.optional = !NEW || engine != EngineKind::Vllm;
        }
        let settings = fields::all().filter(|it| it.applies_to(engine));
        members.extend(settings.map(|it| {
            let schema = described(nullable(schema::field(it)), it.help);
            Member { name: it.name, schema, optional: true }
        }));
        closed(members)
    }
}

form! {
    /// Options of a body that are not part of the record.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(super) struct Wish {
        /// Files that are named and not there are no reason to refuse: they come later.
        force: given Force,
        /// Sets better values than the defaults, where nothing is set; see docs/reference/defaults.md.
        profile: optional Profile,
    }
}

impl Wish {
    /// Whether a request is accepted though its files are not there yet.
    pub(super) fn force(self) -> bool {
        self.force == Some(true)
    }

    /// Sets what the profile says for fields that neither the body nor `stored` sets.
    pub(super) fn tune(
        self,
        engine: EngineKind,
        task: Task,
        body: &mut Map<String, Value>,
        stored: Option<&ModelConfig>,
        trained_for: Option<u64>,
    ) {
        if self.profile.is_some() {
            let mut set = stored.map(|it| it.values().clone()).unwrap_or_default();
            set.extend(body.clone());
            body.extend(tuned::values(engine, task, &set, trained_for));
        }
    }
}

/// `true` or `false`; `null` counts as `false`.
struct Force;

impl Field for Force {
    type Value = bool;

    fn allowed() -> Cow<'static, str> {
        bool::allowed()
    }

    fn read(value: &Value, _: Timestamp) -> Option<bool> {
        if value.is_null() { Some(false) } else { value.as_bool() }
    }

    fn schema(_: &mut Components) -> Value {
        schema::flag()
    }
}

/// The name of the only profile.
struct Profile;

impl Field for Profile {
    type Value = ();

    fn allowed() -> Cow<'static, str> {
        format!("`{}`, or be left out", tuned::PROFILE).into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<()> {
        (value.as_str()? == tuned::PROFILE).then_some(())
    }

    fn schema(_: &mut Components) -> Value {
        one_of(&[tuned::PROFILE])
    }
}
