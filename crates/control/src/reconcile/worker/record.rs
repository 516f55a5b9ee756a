//! What became of a step: stored with its place in the timeline, and told to everybody.

use std::{sync::Arc, time::Instant};

use gantry_domain::{
    Timestamp,
    model::{Apply, Blueprint, Model, ModelEvent, Phase, RolledBack, State},
};
use gantry_store::{StoreResult, in_time};
use tracing::{info, warn};

use super::Worker;
use crate::diagnose;

/// Timeline entries that are kept of a model.
const KEPT_EVENTS: i64 = 500;

impl Worker {
    /// Stores a phase with its place in the timeline, unless the operator was faster; then tells everybody.
    pub(super) async fn store(&mut self, model: &Model, phase: Phase) -> StoreResult<()> {
        in_time(self.store_now(model, phase)).await
    }

    async fn store_now(&mut self, model: &Model, phase: Phase) -> StoreResult<()> {
        let control = Arc::clone(&self.control);
        let now = control.clock.now();
        let (from, _) = model.state();
        let diagnosis = diagnose::at_once(model, &phase);
        let after = Model { phase: phase.clone(), diagnosis, ..model.clone() };
        let (to, reason) = after.state();
        let mut tx = control.store.write().await?;
        control.supervision.fence(&mut tx)?;
        if !tx.record_phase(model, &phase).await? {
            return Ok(());
        }
        if from != to || reason.is_some() {
            let detail = took(model, to, control.steady.now());
            let event = ModelEvent { at: now, from, to, reason: reason.clone(), detail };
            tx.insert_event(model.id, &event).await?;
            tx.trim_events(model.id, KEPT_EVENTS).await?;
        }
        if let Some(known) = &after.diagnosis {
            tx.record_diagnosis(model.id, model.generation, known).await?;
        }
        self.draining = match phase {
            Phase::Stopping { .. } if model.apply.as_ref().is_some_and(|it| it.swap) => {
                control.publisher.last_upstream(model.id).await.map(|it| (it, Instant::now()))
            }
            _ => None,
        };
        control.publisher.commit(&control, tx).await?;
        if to == State::Failed {
            warn!(model = model.id.0, from = %from, reason, "model failed");
        } else {
            info!(model = model.id.0, from = %from, to = %to, reason, "model state");
        }
        if to != State::Running {
            control.live.change(self.id, |it| it.drift = None);
        }
        diagnose::note(&control, &after).await;
        // Nobody may be listening.
        let _ = control.phases.send((model.id, phase));
        Ok(())
    }

    /// Starts the last good settings in place of those that failed, unless the operator was faster.
    pub(super) async fn roll_back(&self) -> StoreResult<bool> {
        let now = self.control.clock.now();
        let mut tx = self.control.store.write().await?;
        self.control.supervision.fence(&mut tx)?;
        // Read again, for its diagnosis.
        let Some((model, false)) = tx.model_for_reconcile(self.id).await? else { return Ok(false) };
        let (Some(apply), Some(good)) = (&model.apply, model.rollback_to()) else { return Ok(false) };
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

/// How long the state before took, where that is worth knowing.
fn took(model: &Model, to: State, now: Timestamp) -> Option<String> {
    let since = match &model.phase {
        Phase::Starting { since, .. } | Phase::Loading { since, .. } | Phase::Stopping { since, .. } => {
            *since
        }
        _ => return None,
    };
    let seconds = now.since(since).as_secs_f64();
    matches!(to, State::Loading | State::Running | State::Stopped | State::Failed)
        .then(|| format!("after {seconds:.1} s"))
}
