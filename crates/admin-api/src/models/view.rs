//! Models as answers show them, and as the audit log keeps them.

use gantry_domain::{
    ModelId, Role, Timestamp,
    account_token::Right,
    audit::AuditEntry,
    diagnosis::Diagnosis,
    engine,
    model::{
        EngineKind, Model, Phase, RolledBack, State, Task, fields,
        lifecycle::{
            Again, Rules,
            again::{STEADY, WINDOW},
        },
    },
    schema::{
        self, Components, Member, Members, Rfc3339, Shape, closed, component, constant, described, nullable,
        one_of, text,
    },
    view,
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};

use crate::{
    App,
    caller::Caller,
    ports::{Drift, Live},
};

/// The text that is shown instead of a value that the reader may not see.
pub(super) const HIDDEN: &str = "***";

view! {
    /// What operators set, apart from the fields of the field table.
    #[derive(Debug)]
    struct RecordColumns {
        name: String,
        served_name: String,
        task: Task,
        engine_type: EngineKind,
        archived: bool,
        hub_token_set: bool,
        created_at: Rfc3339,
    }
}

view! {
    /// What the gateway adds to a record.
    #[derive(Debug)]
    struct Columns {
        id: ModelId,
        record: RecordColumns => part,
        state: State,
        state_reason: Option<String>,
        needs_apply: bool,
        needs_apply_reason: Option<&'static str>,
        rolled_back: Option<RolledBackView>,
        diagnosis: Option<Diagnosis>,
        /// What the gateway does by itself after failures (`restart_policy`). `null`: nothing.
        restart: Option<RestartView>,
        /// The simulator stands in for the engine: what it answers means nothing.
        simulator: bool,
        /// Fields that are not set: what is shown of them is the default.
        defaulted: Vec<&'static str>,
        updated_at: Rfc3339,
        /// For `If-Match`: it changes with everything of the record that can be changed, but for the hub's token.
        revision: String,
    }
}

view! {
    /// The settings that a roll-back took out of the record.
    #[derive(Debug)]
    struct RolledBackView {
        reason: String as nullable(text()),
        diagnosis: Option<Diagnosis>,
        task: Task,
        settings: Map<String, Value>,
    }
}

view! {
    #[derive(Debug)]
    struct RestartView {
        /// Restarts within the last hour that count towards `restart_limit`.
        attempts: usize,
        last_at: Option<Rfc3339>,
        /// When the next one is due.
        next_at: Option<Rfc3339>,
        /// It stays `failed` until somebody starts it.
        given_up: bool,
    }
}

/// A model as answers show it: its columns, and every field of the field table that its engine has. A field that is not
/// set has its default and is named in `defaulted`, or is `null`.
#[derive(Debug)]
pub(crate) struct ModelView {
    columns: Columns,
    settings: Map<String, Value>,
}

impl Serialize for ModelView {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        self.columns.put(&mut map)?;
        for (name, value) in &self.settings {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Shape for ModelView {
    fn schema(all: &mut Components) -> Value {
        let [vllm, llamacpp] = EngineKind::ALL;
        component(all, "Model", |all| {
            json!({ "oneOf": [
                component(all, "VllmModel", |all| of_engine(all, vllm)),
                component(all, "LlamacppModel", |all| of_engine(all, llamacpp)),
            ] })
        })
    }
}

/// Returns the schema of a model that this engine serves.
fn of_engine(all: &mut Components, engine: EngineKind) -> Value {
    let mut members = Vec::new();
    Columns::members(all, &mut members);
    for it in members.iter_mut().filter(|it| it.name == "engine_type") {
        it.schema = constant(engine.as_str());
    }
    members.extend(fields::all().filter(|it| it.applies_to(engine)).map(|it| {
        let schema = match it.name {
            "mode" => one_of(&["online", "offline"]),
            _ => nullable(schema::field(it)),
        };
        Member { name: it.name, schema: described(schema, it.help), optional: false }
    }));
    closed(members)
}

impl ModelView {
    /// Returns the model as `caller` sees it: a caller who may set environment variables sees their values. An owner's token
    /// that only reads may not set them.
    pub(super) fn for_caller(app: &App, caller: &Caller, model: &Model) -> Self {
        let may_set = caller.role() == Role::Owner && caller.grant.reaches("models", Right::Write).is_ok();
        if may_set { Self::whole(app, model) } else { Self::new(app, model) }
    }

    /// Returns the model without the values of environment variables, since operators put tokens there.
    pub(super) fn new(app: &App, model: &Model) -> Self {
        let mut view = Self::whole(app, model);
        hide_values(&mut view.settings);
        if let Some(replaced) = &mut view.columns.rolled_back {
            hide_values(&mut replaced.settings);
        }
        view
    }

    fn whole(app: &App, model: &Model) -> Self {
        let (state, state_reason) = model.state();
        let needs_apply_reason = needs_apply(model, &app.engines.live(model.id));
        let rolled_back = model.apply.as_ref().and_then(|it| it.rolled_back.as_ref());
        let (settings, defaulted) = settings(model);
        let columns = Columns {
            id: model.id,
            record: RecordColumns::of(model),
            state,
            state_reason,
            needs_apply: needs_apply_reason.is_some(),
            needs_apply_reason,
            rolled_back: rolled_back.map(RolledBackView::of),
            diagnosis: model.diagnosis.clone(),
            restart: RestartView::of(model, &app.monitor.boot(), app.steady.now()),
            simulator: app.engines.is_simulated(&model.as_launched()),
            defaulted,
            updated_at: model.updated_at.into(),
            revision: revision(app, model),
        };
        Self { columns, settings }
    }
}

impl RecordColumns {
    fn of(model: &Model) -> Self {
        Self {
            name: model.name.clone(),
            served_name: model.served_name.clone(),
            task: model.task,
            engine_type: model.engine,
            archived: model.archived,
            hub_token_set: model.hub_token.is_some() || model.sealed_hub_token.is_some(),
            created_at: model.created_at.into(),
        }
    }
}

impl RolledBackView {
    fn of(it: &RolledBack) -> Self {
        Self {
            reason: it.reason.clone(),
            diagnosis: it.diagnosis.clone(),
            task: it.replaced.task,
            settings: it.replaced.config.values().clone(),
        }
    }
}

impl RestartView {
    /// `None` for a model that the gateway leaves alone.
    fn of(model: &Model, boot: &str, now: Timestamp) -> Option<Self> {
        let again = Rules::of(model, boot).after(&model.phase);
        let is_steady = matches!(model.phase, Phase::Running { since, .. } if now.since(since) >= STEADY);
        let counts = |it: &&Timestamp| !is_steady && now.since(**it) < WINDOW;
        let times = model.starts.as_ref().map_or(&[][..], |it| &it.again);
        let attempts = times.iter().filter(counts).count();
        if model.config.text("restart_policy") != Some("on_failure") && attempts == 0 {
            return None;
        }
        let next_at = match again {
            Again::At(then) => Some(then.into()),
            Again::No | Again::GivenUp => None,
        };
        let last_at = times.last().copied().map(Rfc3339);
        Some(Self { attempts, last_at, next_at, given_up: again == Again::GivenUp })
    }
}

/// Returns every field of the model's engine with its value, and the names of those that show their default.
fn settings(model: &Model) -> (Map<String, Value>, Vec<&'static str>) {
    let (mut settings, mut defaulted) = (Map::new(), Vec::new());
    for field in fields::all().filter(|it| it.applies_to(model.engine)) {
        let value = match (model.config.get(field.name), field.default_for(model.task)) {
            (None, Some(default)) => {
                defaulted.push(field.name);
                default
            }
            (set, _) => set.cloned().unwrap_or(Value::Null),
        };
        settings.insert(field.name.to_owned(), value);
    }
    settings.insert("mode".to_owned(), mode(model).into());
    (settings, defaulted)
}

fn mode(model: &Model) -> &'static str {
    if model.config.is_online() { "online" } else { "offline" }
}

/// Takes the values out of `extra_env`, a field of the settings.
fn hide_values(settings: &mut Map<String, Value>) {
    if let Some(Value::Object(env)) = settings.get_mut("extra_env") {
        env.values_mut().for_each(|it| *it = HIDDEN.into());
    }
}

/// The fields of a model's record that are set, for the audit log.
pub(super) fn record(model: &Model) -> Value {
    let mut record = serde_json::to_value(RecordColumns::of(model)).unwrap_or_default();
    if let Value::Object(map) = &mut record {
        let fields = fields::all().filter(|it| it.applies_to(model.engine));
        let set = fields.filter_map(|it| Some((it.name.to_owned(), model.config.get(it.name)?.clone())));
        map.extend(set);
        map.insert("mode".to_owned(), mode(model).into());
    }
    record
}

/// The revision of a record, for `If-Match`.
pub(super) fn revision(app: &App, model: &Model) -> String {
    app.accounts.cookies.revision(&record(model))
}

/// Takes the values of environment variables out of a row: operators put tokens there, and rows are kept for long.
pub(super) fn without_values(mut entry: AuditEntry) -> AuditEntry {
    for side in [&mut entry.before, &mut entry.after].into_iter().flatten() {
        if let Value::Object(record) = side {
            hide_values(record);
        }
    }
    entry
}

/// Why an active model is not what a start would make now.
pub(crate) fn needs_apply(model: &Model, live: &Live) -> Option<&'static str> {
    if !model.state().0.is_active() {
        return None;
    }
    if !engine::is_as_launched(model) {
        return Some("its settings were changed since it was started");
    }
    live.drift.map(Drift::why)
}
