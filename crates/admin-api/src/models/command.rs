//! Start, stop, apply and delete: these handlers write what is wanted to the database, and the reconciler does it.

use std::{fmt::Write as _, time::Duration};

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, ModelId, Timestamp,
    audit::Action,
    model::{
        Apply, Model, ModelEvent, Phase, State as ModelState, Wanted,
        lifecycle::{Again, Failure, Rules},
    },
};
use gantry_store::Tx;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tracing::info;

use super::view::{ModelView, record, without_values};
use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Accepted, Deleted, Either, Id, Operation, Query, Switch, query},
};

/// How long a start waits for an immediate refusal.
const VERDICT: Duration = Duration::from_secs(2);
/// How long the answer to a deletion waits for the engine's end, and how often it looks.
const GONE: Duration = Duration::from_secs(15);
const ASK_AGAIN: Duration = Duration::from_millis(50);

query! {
    pub(crate) struct StartQuery {
        /// Starts it although its files are for another task.
        force: Switch<false>,
    }
}

pub(crate) const START: Operation = Operation::new("startModel", "Start a model")
    .about(
        "The gateway records that the model should run, and answers; `state` then goes through `starting` and `loading` to \
         `running` or `failed`. An image that can't be had, or a file that is not there, is refused at once, and so is a \
         model whose files are for another task. A model that is being stopped is started when that is done.",
    )
    .errors(&[ErrorCode::InvalidState, ErrorCode::ImageNotAvailable, ErrorCode::ModelFileMissing]);

pub(crate) async fn start(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    Query(StartQuery { force: Switch(force) }): Query<StartQuery>,
) -> Outcome<Accepted<ModelView>> {
    refuse_wrong_task(&app, id, force).await?;
    let refuse_active = |model: &Model, _| {
        let state = model.state().0;
        let ends = state == ModelState::Stopping && model.wanted == Wanted::Stopped;
        if state.is_active() && !ends {
            return Err(Parts::invalid_state(format!("the model is {state} already")));
        }
        refuse_archived(model)?;
        refuse_sealed(model)?;
        Ok(None)
    };
    run(&app, &caller, id, Action::ModelStart, refuse_active).await
}

query! {
    pub(crate) struct ApplyQuery {
        /// If these settings do not get ready, the last ones that did are put back and started.
        rollback: Switch<false>,
        /// Starts it although its files are for another task.
        force: Switch<false>,
    }
}

pub(crate) const APPLY: Operation = Operation::new("applyModel", "Apply a model's settings")
    .about(
        "The model is stopped, if it is active, and started with the settings as they are now. Requests that come meanwhile \
         wait for the new engine; those in flight may end first.",
    )
    .errors(&[ErrorCode::InvalidState, ErrorCode::ImageNotAvailable, ErrorCode::ModelFileMissing]);

pub(crate) async fn apply(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    Query(ApplyQuery { rollback: Switch(rollback), force: Switch(force) }): Query<ApplyQuery>,
) -> Outcome<Accepted<ModelView>> {
    refuse_wrong_task(&app, id, force).await?;
    let how = |model: &Model, now| {
        refuse_archived(model)?;
        refuse_sealed(model)?;
        // While one apply is under way, requests wait for the next one too.
        let swap = model.state().0 == ModelState::Running || model.is_swapping();
        Ok(Some(Apply { at: now, swap, rollback, rolled_back: None }))
    };
    run(&app, &caller, id, Action::ModelApply, how).await
}

pub(crate) const STOP: Operation = Operation::new("stopModel", "Stop a model").about(
    "The engine gets time to finish; then its container is removed. Stopping a stopped model changes nothing: the answer is \
     200 then, and 202 otherwise.",
);

pub(crate) async fn stop(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
) -> Outcome<Either<Json<ModelView>, Accepted<ModelView>>> {
    let mut tx = app.store.write().await?;
    tx.lock_model(ModelId(id)).await?;
    let model = tx.model(ModelId(id)).await?.ok_or_else(|| Parts::not_found("model", id))?;
    if model.state().0 == ModelState::Stopped {
        tx.audit(&caller.did(Action::ModelStop, id), app.clock.now()).await?;
        tx.commit().await?;
        return Ok(Either::First(Json(ModelView::new(&app, &model))));
    }
    let wanted = (Wanted::Stopped, None);
    let model = command(&mut tx, &caller, &model, wanted, Action::ModelStop, app.clock.now()).await?;
    tx.commit().await?;
    let _ = app.signals.wake.try_send(model.id);
    app.signals.refresh.publish().await;
    Ok(Either::Second(Accepted(ModelView::new(&app, &model))))
}

pub(crate) const DELETE: Operation = Operation::new("deleteModel", "Delete a model").about(
    "Nobody sees the model any more at once; the answer waits for its engine to end, for 15 s at most. Only the record is \
     deleted: files stay.",
);

pub(crate) async fn delete(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Deleted<ModelId>> {
    let mut tx = app.store.write().await?;
    // If two deletions come at once, the second one gets the same answer as a later one would.
    tx.lock_model(ModelId(id)).await?;
    // A model that is being deleted is gone for everybody.
    let model = tx.model(ModelId(id)).await?.ok_or_else(|| Parts::not_found("model", id))?;
    tx.mark_deleting(model.id, app.clock.now()).await?;
    let entry = caller.did(Action::ModelDelete, id).deleted(record(&model));
    tx.audit(&without_values(entry), app.clock.now()).await?;
    tx.commit().await?;
    info!(model = id, by = %caller.user.username, "model deleted");
    let _ = app.signals.wake.try_send(model.id);
    app.signals.feed.deleted(model.id).await;
    app.signals.refresh.publish().await;
    // Waits a little, so that the memory is free when the caller starts another model. The stop goes on after the
    // time-out.
    let _ = tokio::time::timeout(GONE, gone(&app, model.id)).await;
    Ok(Deleted(model.id))
}

/// Returns when the record is gone, which happens once there is no container. Asks the database, because the gateway
/// that stops the engine may be another one.
async fn gone(app: &App, id: ModelId) -> Outcome<()> {
    while app.store.read_quick().await?.model_for_reconcile(id).await?.is_some() {
        tokio::time::sleep(ASK_AGAIN).await;
    }
    Ok(())
}

/// Refuses a model whose files are for another task. Called before the transaction, since it looks at files.
async fn refuse_wrong_task(app: &App, id: i64, force: bool) -> Outcome<()> {
    if force {
        return Ok(());
    }
    let model = super::find(app, id).await?;
    match super::file_checks::wrong_task(app, &model).await {
        Some(why) => {
            let message = format!("{why}, or start it all the same with `force=true` (`--force`)");
            Err(ApiError::new(ErrorCode::InvalidState, message).with_param("task").into())
        }
        None => Ok(()),
    }
}

fn refuse_archived(model: &Model) -> Outcome<()> {
    if model.archived {
        return Err(Parts::invalid_state("the model is archived: unarchive it first"));
    }
    Ok(())
}

/// Refuses a model whose hub token is sealed: the engine would ask the hub without that token, and fail for another
/// reason.
fn refuse_sealed(model: &Model) -> Outcome<()> {
    if model.sealed_hub_token.is_some() {
        return Err(Parts::invalid_state(
            "the `hub_token` of this model can't be decrypted: this gateway lacks the key, which belongs into \
             DATA_DIR/secrets/database-keys; put it there and restart, or set `hub_token` again",
        ));
    }
    Ok(())
}

async fn run(
    app: &App,
    caller: &Caller,
    id: i64,
    what: Action,
    how: impl FnOnce(&Model, Timestamp) -> Outcome<Option<Apply>>,
) -> Outcome<Accepted<ModelView>> {
    // Subscribed before the command is recorded, so that its verdict can't be missed.
    let phases = app.signals.phases.subscribe();
    let mut tx = app.store.write().await?;
    // If two starts come at once, the second must see the first.
    tx.lock_model(ModelId(id)).await?;
    let model = tx.model(ModelId(id)).await?.ok_or_else(|| Parts::not_found("model", id))?;
    let now = app.clock.now();
    let apply = how(&model, now)?;
    let model = command(&mut tx, caller, &model, (Wanted::Running, apply), what, now).await?;
    tx.commit().await?;
    let _ = app.signals.wake.try_send(model.id);
    app.signals.refresh.publish().await;
    match tokio::time::timeout(VERDICT, verdict(phases, &model)).await {
        Ok(Some(Phase::Failed { failure: failure @ Failure::ImageNotAvailable { .. }, .. })) => {
            Err(Problem::new(ErrorCode::ImageNotAvailable, failure.to_string()))
        }
        Ok(Some(Phase::Failed { failure: ref failure @ Failure::FileMissing { ref field, .. }, .. })) => {
            Err(ApiError::new(ErrorCode::ModelFileMissing, failure.to_string()).with_param(field).into())
        }
        _ => Ok(Accepted(ModelView::new(app, &super::find(app, id).await?))),
    }
}

/// Waits for the outcome of this command: the first phase in which the container runs, or the failure.
async fn verdict(mut phases: Receiver<(ModelId, Phase)>, model: &Model) -> Option<Phase> {
    loop {
        match phases.recv().await {
            Ok((id, phase)) if id == model.id && phase.generation() >= model.generation => match phase {
                Phase::Starting { .. } | Phase::Stopping { .. } => {}
                settled => return Some(settled),
            },
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

async fn command(
    tx: &mut Tx,
    caller: &Caller,
    model: &Model,
    (wanted, apply): (Wanted, Option<Apply>),
    action: Action,
    now: Timestamp,
) -> Outcome<Model> {
    let (from, _) = model.state();
    let again = Rules::of(model, "").after(&model.phase);
    let n = model.starts.as_ref().map_or(0, |it| it.again.len());
    let model = tx
        .command(model.id, wanted, apply.as_ref(), now)
        .await?
        .ok_or_else(|| Parts::not_found("model", model.id))?;
    let (to, _) = model.state();
    let what = action.as_str().trim_start_matches("model.");
    let mut detail = format!("{what} by {}", caller.user.username);
    if n > 0 && again != Again::No {
        let end = if again == Again::GivenUp { "which gave up" } else { "which was not at its end" };
        let _ = write!(detail, ", after {n} starts by the restart policy, {end}");
    }
    let detail = Some(detail);
    tx.insert_event(model.id, &ModelEvent { at: now, from, to, reason: None, detail }).await?;
    let mut entry = caller.did(action, model.id).changed(&json!({ "state": from }), &json!({ "state": to }));
    if apply.is_some_and(|it| it.rollback) {
        entry = entry.noting("rollback", true);
    }
    tx.audit(&entry, now).await?;
    info!(model = model.id.0, by = %caller.user.username, what, "model command");
    Ok(model)
}
