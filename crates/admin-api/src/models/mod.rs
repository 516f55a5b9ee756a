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
mod form;
mod gpu_room;
pub(crate) mod hub_config;
pub(crate) mod metrics;
pub(crate) mod registry;
mod view;
pub(crate) mod watch;

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, FieldProblem, ModelId, Role,
    audit::Action,
    model::{Model, ModelDraft, Task},
};
use gantry_store::Tx;
use serde_json::{Map, Value};

pub(crate) use self::view::needs_apply;
use self::{
    form::{ChangedModel, NewModel, Wish},
    view::{HIDDEN, ModelView, record, revision, without_values},
};
use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Body, Created, Id, IfMatch, Listed, Operation, Page, Query, Switch, query},
};

/// The field that names a model's own files.
const FILES: &str = "local_path";
query! {
    pub(crate) struct ModelQuery {
        page: Page,
        /// Archived ones too.
        archived: Switch<false>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listModels", "List models");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(ModelQuery { page, archived: Switch(archived) }): Query<ModelQuery>,
) -> Outcome<Listed<ModelView>> {
    let models = app.store.read().await?.models(archived).await?;
    let Listed(window, n) = page.of(models);
    Ok(Listed(window.iter().map(|it| ModelView::for_caller(&app, &caller, it)).collect(), n))
}

pub(crate) const SHOW: Operation = Operation::new("getModel", "One model");

pub(crate) async fn show(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Json<ModelView>> {
    Ok(Json(ModelView::for_caller(&app, &caller, &find(&app, id).await?)))
}

pub(crate) const CREATE: Operation = Operation::new("createModel", "Create a model")
    .about(
        "Nothing is started. The model needs a `local_path`, or a `repo_id` in online mode. `engine_type`, `task`, `pooling` \
         and `served_name` that are left out are filled in from the files. A file that is named and not there is 422, \
         unless `force` is true. Some settings can be set by owners only, since they give power over the host: they are \
         403 `forbidden` from others, and docs/model-fields.md marks them.",
    )
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::ServedNameConflict, ErrorCode::HostUnavailable]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Body(form): Body<NewModel>,
) -> Outcome<Created<ModelView>> {
    let wish = form.wish;
    let (draft, body) = draft_of_new(&app, &caller, form).await?;
    check(&app, &draft, &body).await?;
    let model = Model::new(ModelId(0), draft.clone(), app.clock.now());
    // A simulator loads nothing.
    if !wish.force() && !app.engines.is_simulated(&model) {
        fill::files_are_there(&app, named_files(&draft, &body, None)).await?;
    }
    let model = insert(&app, &caller, &draft).await?;
    Ok(Created(ModelView::for_caller(&app, &caller, &model)))
}

/// Stores a new model.
///
/// # Errors
/// 409 `served_name_conflict` if one of its names is taken.
pub(crate) async fn insert(app: &App, caller: &Caller, draft: &ModelDraft) -> Outcome<Model> {
    let mut tx = app.store.write().await?;
    // Names are compared across tables, and adapters within records: no index refuses the second of two at once.
    tx.exclusive().await?;
    names_are_free(&mut tx, None, draft).await?;
    let now = app.clock.now();
    let model = tx.insert_model(draft, now).await?;
    let entry = caller.did(Action::ModelCreate, model.id).created(record(&model));
    tx.audit(&without_values(entry), now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(model)
}

/// Returns who has one of the names of a new model, in words; `None` if they are free.
pub(crate) async fn name_taken(tx: &mut Tx, draft: &ModelDraft) -> Outcome<Option<String>> {
    let own = draft.config.adapters(draft.engine);
    Ok(tx.taken_name(None, &draft.served_name, &own).await?.map(|(_, message)| message))
}

/// Whether a path below the models base directory is there. `false` if the file system does not answer.
pub(crate) async fn is_there(app: &App, path: &str) -> bool {
    let path = app.files.models_dir.get().join(path.trim_start_matches("/models/"));
    app.files.disk.look(move || path.exists()).await.unwrap_or(false)
}

/// Returns the draft of a create request, and its body with what was filled in.
async fn draft_of_new(
    app: &App,
    caller: &Caller,
    NewModel { wish, mut body }: NewModel,
) -> Outcome<(ModelDraft, Map<String, Value>)> {
    // A path that is not there is the first thing to say: most of what else is missing follows from it.
    let filled = fill::complete(app, &mut body, wish).await;
    match ModelDraft::create(&body, caller.role()) {
        Ok(draft) => filled.map(|()| (draft, body)),
        Err(problems) => {
            let said = |it: &FieldProblem| it.param == "engine_type" || it.param == "served_name";
            if !wish.force()
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

pub(crate) const CHANGE: Operation = Operation::new("changeModel", "Change a model")
    .about(
        "What runs goes on as it is until the model is applied; its served name can't be changed meanwhile. `null` unsets a \
         setting.",
    )
    .errors(&[
        ErrorCode::PathNotAllowed,
        ErrorCode::ServedNameConflict,
        ErrorCode::HostUnavailable,
        ErrorCode::InvalidState,
    ]);

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    seen: IfMatch,
    Body(ChangedModel { wish, body }): Body<ChangedModel>,
) -> Outcome<Json<ModelView>> {
    // The file system is looked at before there is a transaction that others wait for.
    let before = find(&app, id).await?;
    let checked = draft_of_change(&caller, &before, wish, &body)?;
    check(&app, &checked, &body).await?;
    if !wish.force() && !app.engines.is_simulated(&before) {
        fill::files_are_there(&app, named_files(&checked, &body, Some(&before))).await?;
    }
    let mut tx = app.store.write().await?;
    // As in [`create`].
    tx.exclusive().await?;
    // A record is replaced as a whole: of two changes at once the later one must have seen the earlier one.
    tx.lock_model(ModelId(id)).await?;
    let model = tx.model(ModelId(id)).await?.ok_or_else(|| Parts::not_found("model", id))?;
    seen.check(&revision(&app, &model))?;
    let draft = draft_of_change(&caller, &model, wish, &body)?;
    names_are_free(&mut tx, Some(model.id), &draft).await?;
    let active = model.state().0.is_active();
    if active && draft.served_name != model.served_name {
        return Err(Parts::invalid_state("stop the model before changing its served name"));
    }
    if active && draft.archived {
        return Err(Parts::invalid_state("stop the model before archiving it"));
    }
    let (old, now) = (record(&model), app.clock.now());
    let before = model;
    let model = tx.update_model(before.id, &draft, now).await?;
    let model = model.ok_or_else(|| Parts::not_found("model", id))?;
    let mut entry = caller.did(Action::ModelChange, id).changed(&old, &record(&model));
    if body.contains_key("hub_token") {
        entry = entry.noting("hub_token_given", true);
    }
    if entry.says_nothing() {
        tx.rollback().await?;
        return Ok(Json(ModelView::for_caller(&app, &caller, &before)));
    }
    tx.audit(&without_values(entry), now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Json(ModelView::for_caller(&app, &caller, &model)))
}

/// Returns the draft of a change request.
fn draft_of_change(
    caller: &Caller,
    model: &Model,
    wish: Wish,
    body: &Map<String, Value>,
) -> Outcome<ModelDraft> {
    guesses_no_value(caller, body)?;
    let mut body = unhidden(body, model);
    let task = body.get("task").and_then(Value::as_str).and_then(Task::parse).unwrap_or(model.task);
    wish.tune(model.engine, task, &mut body, Some(&model.config), None);
    ModelDraft::change(model, &body, caller.role()).map_err(|it| ApiError::validation(it).into())
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
pub(crate) async fn check(app: &App, draft: &ModelDraft, body: &Map<String, Value>) -> Outcome<()> {
    let (base, paths) = (app.files.models_dir.get(), draft.config.paths());
    let outside = app.files.disk.look(move || files::outside(&base, &paths)).await?;
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
        && !app.config.images.allows(image)
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
    let default = app.config.startup_timeouts[model.engine].as_secs() as i64;
    model.config.int("startup_timeout_sec").unwrap_or(default)
}
