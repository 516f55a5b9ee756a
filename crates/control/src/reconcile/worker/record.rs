//! Stores the result of a step with its place in the timeline, and notifies all listeners.

use std::{sync::Arc, time::Instant};

use gantry_domain::{
    ModelId, Timestamp,
    model::{Apply, Blueprint, Model, ModelEvent, Phase, RolledBack, State},
};
use gantry_store::{ModelToReconcile, StoreResult, Tx, in_time};
use tokio::sync::SemaphorePermit;
use tracing::{info, warn};

use super::state::{Draining, Worker};
use crate::{Control, diagnose};

/// Most timeline entries that are kept of a model.
pub(super) const KEPT_EVENTS: i64 = 500;

impl Worker {
    /// Stores a phase with its place in the timeline, unless an operator was faster. Then notifies all listeners.
    pub(super) async fn store(&mut self, model: &Model, phase: Phase) -> StoreResult<()> {
        let control = Arc::clone(&self.control);
        let turn = control.publisher.turn().await;
        // Boxed: the futures of database transactions are large.
        in_time(Box::pin(self.store_now(turn, model, phase))).await
    }

    async fn store_now(
        &mut self,
        turn: Option<SemaphorePermit<'_>>,
        model: &Model,
        phase: Phase,
    ) -> StoreResult<()> {
        let control = Arc::clone(&self.control);
        let (from, _) = model.state();
        let diagnosis = diagnose::at_once(model, &phase);
        let after = Model { phase: phase.clone(), diagnosis, ..model.clone() };
        let (to, reason) = after.state();
        let detail = took(model, to, control.steady.now());
        let Some(tx) = write(&control, model, &after, detail).await? else { return Ok(()) };
        self.draining = match phase {
            Phase::Stopping { .. } if model.apply.as_ref().is_some_and(|it| it.swap) => {
                let upstreams = control.publisher.last_upstreams(model.id).await;
                (!upstreams.is_empty()).then(|| Draining { upstreams, since: Instant::now() })
            }
            _ => None,
        };
        if [&model.phase, &phase].into_iter().any(|it| matches!(it, Phase::Running { .. })) {
            control.publisher.commit(&control, tx).await?;
        } else {
            // No request goes to the engine before or after this change, so models that change at the same time share
            // one reading. If it fails, the next reading has the change.
            tx.commit().await?;
            drop(turn);
            let _ = control.publisher.publish(&control).await;
        }
        if to == State::Failed {
            warn!(model = model.id.0, from = %from, reason, "model failed");
        } else if from != to {
            info!(model = model.id.0, from = %from, to = %to, reason, "model state");
        }
        if to != State::Running {
            control.runtime_status.change(self.id, |it| it.drift = None);
        }
        diagnose::note(&control, &after).await;
        // An error means only that there are no listeners.
        let _ = control.phases.send((model.id, phase));
        Ok(())
    }

    /// Starts the last good settings in place of those that failed, unless the operator was faster.
    pub(super) async fn roll_back(&self) -> StoreResult<bool> {
        let _turn = self.control.publisher.turn().await;
        in_time(Box::pin(self.roll_back_now())).await
    }

    async fn roll_back_now(&self) -> StoreResult<bool> {
        let now = self.control.clock.now();
        let mut tx = self.control.store.write().await?;
        // Other transactions that decide on what they read wait from here on, so that none takes a name that the
        // earlier settings have.
        tx.exclusive().await?;
        self.control.supervision.fence(&mut tx)?;
        // Locks the record. Both this and a change that comes at the same time would replace settings, and what is
        // noted as replaced must be what was.
        if !tx.lock_model(self.id).await? {
            return Ok(false);
        }
        // Read again, for its diagnosis.
        let record = tx.model_for_reconcile(self.id).await?.filter(|it| !it.deleting);
        let Some(ModelToReconcile { model, .. }) = record else { return Ok(false) };
        let (Some(apply), Some(good)) = (&model.apply, model.rollback_to()) else { return Ok(false) };
        let before = good.put_into(&model);
        if let Some((_, whose)) =
            tx.taken_name(Some(model.id), &before.served_name, &before.adapters()).await?
        {
            tx.give_up_roll_back(&model).await?;
            let detail =
                Some(format!("not rolled back, since a name of the settings before is taken: {whose}"));
            let (state, reason) = model.state();
            let event = ModelEvent { at: now, from: state, to: state, reason, detail };
            tx.insert_event(model.id, &event).await?;
            self.control.publisher.commit(&self.control, tx).await?;
            warn!(model = model.id.0, whose, "not rolled back: a name of the settings before is taken");
            return Ok(true);
        }
        let rolled_back = RolledBack {
            reason: model.state().1.unwrap_or_default(),
            diagnosis: model.diagnosis.clone(),
            replaced: Blueprint::of(&model),
        };
        let (at, swap) = (apply.at, apply.swap);
        let apply = Apply { at, swap, rollback: false, rolled_back: Some(rolled_back) };
        let Some(after) = tx.roll_back(&model, good, &apply, now).await? else { return Ok(false) };
        let detail = Some("rolled back to the last settings that got ready".to_owned());
        let (to, _) = after.state();
        let event = ModelEvent { at: now, from: State::Failed, to, reason: None, detail };
        tx.insert_event(model.id, &event).await?;
        self.control.publisher.commit(&self.control, tx).await?;
        warn!(model = model.id.0, "the new settings did not get ready: rolled back");
        Ok(true)
    }
}

/// Writes the phase of `after` over that of `model`, with its place in the timeline, if this gateway supervises.
/// Returns `None` if there was a command since `model` was read.
async fn write(
    control: &Control,
    model: &Model,
    after: &Model,
    detail: Option<String>,
) -> StoreResult<Option<Tx>> {
    let ((from, _), (to, reason)) = (model.state(), after.state());
    let mut tx = control.store.write().await?;
    control.supervision.fence(&mut tx)?;
    if !tx.record_phase(model, &after.phase, &control.boot).await? {
        return Ok(None);
    }
    if from != to || reason.is_some() {
        let event = ModelEvent { at: control.clock.now(), from, to, reason, detail };
        tx.insert_event(model.id, &event).await?;
        tx.trim_events(model.id, KEPT_EVENTS).await?;
    }
    if let Some(known) = &after.diagnosis {
        tx.record_diagnosis(model.id, model.generation, known).await?;
    }
    Ok(Some(tx))
}

/// Notes that a model was stopped together with the gateway, so that the gateway's next start does not take the
/// container for lost. A command that was not carried out yet stays, and is carried out then.
///
/// # Errors
/// The database does not answer, or another gateway supervises by now.
pub async fn note_stopped(control: &Control, id: ModelId) -> StoreResult<()> {
    let model = control.store.read().await?.model(id).await?;
    let active = |it: &Model| it.state().0.is_active() && it.phase.generation() == it.generation;
    let Some(model) = model.filter(active) else { return Ok(()) };
    let phase = Phase::Stopped { generation: model.generation, lost: false };
    let after = Model { phase, diagnosis: None, ..model.clone() };
    match write(control, &model, &after, Some("stopped with the gateway".to_owned())).await? {
        Some(tx) => tx.commit().await,
        None => Ok(()),
    }
}

/// Returns how long the state before took, if that is worth knowing.
fn took(model: &Model, to: State, now: Timestamp) -> Option<String> {
    let since = match &model.phase {
        Phase::Starting { since, .. } | Phase::Loading { since, .. } | Phase::Stopping { since, .. } => {
            *since
        }
        _ => return None,
    };
    let seconds = now.since(since).as_secs_f64();
    matches!(to, State::Starting | State::Loading | State::Running | State::Stopped | State::Failed)
        .then(|| format!("after {seconds:.1} s"))
}
