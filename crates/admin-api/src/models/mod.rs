//! `/admin/models`: the records. Commands are in [`command`], and views of what runs are in [`watch`].

pub(crate) mod base_dir;
pub(crate) mod command;
pub(crate) mod dry_run;
mod estimate;
mod file_checks;
mod files;
mod fill;
pub(crate) mod folders;
mod follow;
pub(crate) mod hub_config;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod watch;

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::{
    ApiError, ErrorCode, FieldProblem, ModelId, Role, Timestamp,
    audit::{Action, AuditEntry},
    engine,
    model::{
        Model, ModelDraft, Phase, Task, fields,
        lifecycle::{
            Again, Rules,
            again::{STEADY, WINDOW},
        },
    },
};
use gantry_store::Tx;
use serde_json::{Map, Value, json};

use self::fill::Wish;
use crate::{
    App,
    app::{Drift, Live, Parts},
    error::{Outcome, Problem},
    extract::{Created, Id, Listed, Object, Params},
    policy::Caller,
};

/// The field that names a model's own files.
const FILES: &str = "local_path";
/// The text that is shown instead of a value that the reader may not see.
const HIDDEN: &str = "***";

/// Returns a model as the API shows it to callers who may not set everything: without the values of environment
/// variables, since operators put tokens there.
pub(crate) fn view(app: &App, model: &Model) -> Value {
    let mut view = full_view(app, model);
    hide_values(&mut view);
    if let Some(replaced) = view.pointer_mut("/rolled_back/settings") {
        hide_values(replaced);
    }
    view
}

/// Returns the model as `caller` sees it: a caller who may set the variables sees their values.
fn view_for(app: &App, caller: &Caller, model: &Model) -> Value {
    if caller.role() == Role::Owner { full_view(app, model) } else { view(app, model) }
}

/// Takes the values out of the `extra_env` of a record.
fn hide_values(record: &mut Value) {
    if let Some(Value::Object(env)) = record.get_mut("extra_env") {
        env.values_mut().for_each(|it| *it = HIDDEN.into());
    }
}

/// Returns the identity columns, the state, and every field of the model's engine. A field that is not set has its
/// default and is named in `defaulted`, or is `null`.
fn full_view(app: &App, model: &Model) -> Value {
    let (state, reason) = model.state();
    let live = app.engines.live(model.id);
    let needs_apply = needs_apply(model, &live);
    let mut view = json!({
        "id": model.id,
        "name": model.name,
        "served_name": model.served_name,
        "task": model.task,
        "engine_type": model.engine,
        "state": state,
        "state_reason": reason,
        "needs_apply": needs_apply.is_some(),
        "needs_apply_reason": needs_apply,
        "rolled_back": model.apply.as_ref().and_then(|it| it.rolled_back.as_ref()).map(|it| json!({
            "reason": it.reason,
            "diagnosis": it.diagnosis,
            "task": it.replaced.task,
            "settings": it.replaced.config,
        })),
        "diagnosis": model.diagnosis,
        "restart": restart(model, &app.engines.boot(), app.steady.now()),
        "archived": model.archived,
        "simulator": app.engines.is_simulated(&model.as_launched()),
        "hub_token_set": model.hub_token.is_some() || model.sealed_hub_token.is_some(),
        "created_at": model.created_at.rfc3339(),
        "updated_at": model.updated_at.rfc3339(),
    });
    if let Value::Object(map) = &mut view {
        let mut defaulted = Vec::new();
        for field in fields::all().filter(|it| it.applies_to(model.engine)) {
            let value = match (model.config.get(field.name), field.default_for(model.task)) {
                (None, Some(default)) => {
                    defaulted.push(field.name);
                    default
                }
                (set, _) => set.cloned().unwrap_or(Value::Null),
            };
            map.insert(field.name.to_owned(), value);
        }
        map.insert("defaulted".to_owned(), defaulted.into());
        let mode = if model.config.is_online() { "online" } else { "offline" };
        map.insert("mode".to_owned(), mode.into());
    }
    view
}

/// Returns what the gateway does by itself after failures; `None` for a model that it leaves alone.
fn restart(model: &Model, boot: &str, now: Timestamp) -> Option<Value> {
    let again = Rules::of(model, boot).after(&model.phase);
    let is_steady = matches!(model.phase, Phase::Running { since, .. } if now.since(since) >= STEADY);
    let counts = |it: &&Timestamp| !is_steady && now.since(**it) < WINDOW;
    let times = model.starts.as_ref().map_or(&[][..], |it| &it.again);
    let attempts = times.iter().filter(counts).count();
    if model.config.text("restart_policy") != Some("on_failure") && attempts == 0 {
        return None;
    }
    let next_at = match again {
        Again::At(then) => Some(then.rfc3339()),
        Again::No | Again::GivenUp => None,
    };
    Some(json!({
        "attempts": attempts,
        "last_at": times.last().map(|it| it.rfc3339()),
        "next_at": next_at,
        "given_up": again == Again::GivenUp,
    }))
}

/// The fields of a model's record that are set, for the audit log.
pub(crate) fn audit_view(app: &App, model: &Model) -> Value {
    /// Fields that are not the record's own, or change with it in any case.
    const NOT_ITS_OWN: [&str; 11] = [
        "id",
        "state",
        "state_reason",
        "needs_apply",
        "needs_apply_reason",
        "rolled_back",
        "diagnosis",
        "restart",
        "simulator",
        "updated_at",
        "defaulted",
    ];
    let mut view = full_view(app, model);
    if let Value::Object(map) = &mut view {
        let set = |name: &str| {
            name == "mode" || fields::find(name, model.engine).is_none() || model.config.get(name).is_some()
        };
        map.retain(|name, value| !value.is_null() && set(name) && !NOT_ITS_OWN.contains(&name.as_str()));
    }
    view
}

/// Takes the values of environment variables out of a row: operators put tokens there, and rows are kept for long.
pub(crate) fn without_values(mut entry: AuditEntry) -> AuditEntry {
    for side in [&mut entry.before, &mut entry.after].into_iter().flatten() {
        hide_values(side);
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

/// List models
pub(crate) async fn list(app: State<App>, caller: Caller, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    let archived = params.flag("archived")?;
    params.finish()?;
    let models = app.store.read().await?.models(archived).await?;
    let window = models.iter().skip(page.offset as usize).take(page.limit as usize);
    Ok(Listed(window.map(|it| view_for(&app, &caller, it)).collect(), models.len() as i64))
}

/// One model
pub(crate) async fn show(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    params: Params,
) -> Outcome<Json<Value>> {
    params.finish()?;
    Ok(Json(view_for(&app, &caller, &find(&app, id).await?)))
}

/// Create a model
///
/// Nothing is started. Fields that give power over the host need an owner: from others they are 403 `forbidden`. What
/// is left open is filled in from the files ([`fill`]).
pub(crate) async fn create(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let (draft, wish, body) = draft_of_new(&app, &caller, body).await?;
    check(&app, &draft, &body).await?;
    let model = Model::new(ModelId(0), draft.clone(), app.clock.now());
    // A simulator loads nothing.
    if !wish.force && !app.engines.is_simulated(&model) {
        fill::files_are_there(&app, named_files(&draft, &body, None)).await?;
    }
    let mut tx = app.store.write().await?;
    // Names are compared across tables, and adapters within records: no index refuses the second of two at once.
    tx.exclusive().await?;
    names_are_free(&mut tx, None, &draft).await?;
    let now = app.clock.now();
    let model = tx.insert_model(&draft, now).await?;
    let entry = caller.did(Action::ModelCreate, model.id).created(audit_view(&app, &model));
    tx.audit(&without_values(entry), now).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    Ok(Created(view_for(&app, &caller, &model)))
}

/// Returns the draft of a create request, its wishes, and its body with what was filled in.
async fn draft_of_new(
    app: &App,
    caller: &Caller,
    Object(mut body): Object,
) -> Outcome<(ModelDraft, Wish, Map<String, Value>)> {
    let wish = Wish::take(&mut body)?;
    // A path that is not there is the first thing to say: most of what else is missing follows from it.
    let filled = fill::complete(app, &mut body, wish).await;
    match ModelDraft::create(&body, caller.role()) {
        Ok(draft) => filled.map(|()| (draft, wish, body)),
        Err(problems) => {
            let said = |it: &FieldProblem| it.param == "engine_type" || it.param == "served_name";
            if !wish.force
                && problems.iter().all(said)
                && let Some(path) = body.get(FILES).and_then(Value::as_str)
            {
                fill::files_are_there(app, Some((FILES, path.to_owned()))).await?;
            }
            filled?;
            Err(ApiError::validation(problems).into())
        }
    }
}

/// The model's own files, if the body names them, they are used, and they are others than those of `before`.
fn named_files(
    draft: &ModelDraft,
    body: &Map<String, Value>,
    before: Option<&Model>,
) -> Option<(&'static str, String)> {
    let path = draft.config.text(FILES).filter(|_| body.contains_key(FILES) && !draft.config.is_online())?;
    (before.and_then(|it| it.config.text(FILES)) != Some(path)).then(|| (FILES, path.to_owned()))
}

/// Change a model
///
/// What runs goes on as it is until the model is applied; its served name can't be changed meanwhile.
pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    Object(mut body): Object,
) -> Outcome<Json<Value>> {
    guesses_no_value(&caller, &body)?;
    let wish = Wish::take(&mut body)?;
    let draft = |model: &Model| {
        let mut body = unhidden(&body, model);
        let task = body.get("task").and_then(Value::as_str).and_then(Task::parse).unwrap_or(model.task);
        wish.tune(model.engine, task, &mut body, Some(&model.config), None);
        ModelDraft::change(model, &body, caller.role()).map_err(|it| Problem(ApiError::validation(it)))
    };
    // The file system is looked at before there is a transaction that others wait for.
    let before = find(&app, id).await?;
    let checked = draft(&before)?;
    check(&app, &checked, &body).await?;
    if !wish.force && !app.engines.is_simulated(&before) {
        fill::files_are_there(&app, named_files(&checked, &body, Some(&before))).await?;
    }
    let mut tx = app.store.write().await?;
    // As in [`create`].
    tx.exclusive().await?;
    // A record is replaced as a whole: of two changes at once the later one must have seen the earlier one.
    tx.lock_model(ModelId(id)).await?;
    let model = tx.model(ModelId(id)).await?.ok_or_else(|| Parts::not_found("model", id))?;
    let draft = draft(&model)?;
    names_are_free(&mut tx, Some(model.id), &draft).await?;
    let active = model.state().0.is_active();
    if active && draft.served_name != model.served_name {
        return Err(Parts::invalid_state("stop the model before changing its served name"));
    }
    if active && draft.archived {
        return Err(Parts::invalid_state("stop the model before archiving it"));
    }
    let (old, now) = (audit_view(&app, &model), app.clock.now());
    let before = model;
    let model = tx.update_model(before.id, &draft, now).await?;
    let model = model.ok_or_else(|| Parts::not_found("model", id))?;
    let mut entry = caller.did(Action::ModelChange, id).changed(&old, &audit_view(&app, &model));
    if body.contains_key("hub_token") {
        entry = entry.noting("hub_token_given", true);
    }
    if entry.says_nothing() {
        tx.rollback().await?;
        return Ok(Json(view_for(&app, &caller, &before)));
    }
    tx.audit(&without_values(entry), now).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    Ok(Json(view_for(&app, &caller, &model)))
}

/// Only an owner may send values of `extra_env`. Others may only send back what they were shown ([`unhidden`]). A right
/// guess of a value would be no change, so its acceptance would show that it was right.
///
/// # Errors
/// 403 `forbidden`, whether the value is the stored one or not.
fn guesses_no_value(caller: &Caller, body: &Map<String, Value>) -> Outcome<()> {
    let Some(Value::Object(env)) = body.get("extra_env") else { return Ok(()) };
    if caller.role() == Role::Owner || env.values().all(|it| it == HIDDEN) {
        return Ok(());
    }
    let message =
        "only an owner may set `extra_env`; others send values back as `***`, or leave the field out";
    let problem = FieldProblem { code: ErrorCode::Forbidden, ..FieldProblem::new("extra_env", message) };
    Err(ApiError::validation(vec![problem]).into())
}

/// Returns the body with the values that its sender was not shown: a value that comes back as it was shown is not
/// changed.
fn unhidden(body: &Map<String, Value>, model: &Model) -> Map<String, Value> {
    let mut body = body.clone();
    let known = model.config.get("extra_env").and_then(Value::as_object);
    if let (Some(Value::Object(env)), Some(known)) = (body.get_mut("extra_env"), known) {
        for (name, value) in env.iter_mut().filter(|(_, value)| *value == HIDDEN) {
            if let Some(known) = known.get(name) {
                *value = known.clone();
            }
        }
    }
    body
}

/// Checks what the field table alone can't: links that leave the base directory, and images that are not on the list.
async fn check(app: &App, draft: &ModelDraft, body: &Map<String, Value>) -> Outcome<()> {
    let (base, paths) = (app.models_dir.get(), draft.config.paths());
    let outside = app.disk.look(move || files::outside(&base, &paths)).await?;
    if !outside.is_empty() {
        let problem = |param: &&'static str| FieldProblem {
            code: ErrorCode::PathNotAllowed,
            ..FieldProblem::new(param, format!("`{param}` leaves the models base directory"))
        };
        return Err(ApiError::validation(outside.iter().map(problem).collect()).into());
    }
    if let Some(name) = named_twice(draft) {
        let message = format!("`lora_adapters` names `{name}` twice, or as the model itself");
        return Err(Problem::invalid("lora_adapters", message));
    }
    if body.contains_key("engine_image")
        && let Some(image) = draft.config.text("engine_image")
        && !app.images.allows(image)
    {
        let message = "`engine_image` is not on the list of ENGINE_IMAGE_ALLOWLIST";
        return Err(Problem::invalid("engine_image", message));
    }
    Ok(())
}

/// 409 `served_name_conflict` for what [`Tx::taken_name`] finds.
async fn names_are_free(tx: &mut Tx, id: Option<ModelId>, draft: &ModelDraft) -> Outcome<()> {
    let own = draft.config.adapters(draft.engine);
    match tx.taken_name(id, &draft.served_name, &own).await? {
        Some((param, message)) if !draft.archived => {
            let message = format!("{message}: change that one, or choose another name");
            Err(ApiError::new(ErrorCode::ServedNameConflict, message).with_param(param).into())
        }
        _ => Ok(()),
    }
}

/// Returns a name that the model's engine would have twice.
fn named_twice(draft: &ModelDraft) -> Option<&str> {
    let names = draft.config.adapters(draft.engine);
    let mut seen = vec![draft.served_name.as_str()];
    names.into_iter().find(|name| {
        let twice = seen.contains(name);
        seen.push(name);
        twice
    })
}

pub(crate) async fn find(app: &App, id: i64) -> Outcome<Model> {
    let model = app.store.read().await?.model(ModelId(id)).await?;
    model.ok_or_else(|| Parts::not_found("model", id))
}

/// Longest time in `loading`, in seconds.
pub(crate) fn startup_timeout_sec(app: &App, model: &Model) -> i64 {
    let default = app.startup_timeouts[model.engine].as_secs() as i64;
    model.config.int("startup_timeout_sec").unwrap_or(default)
}
