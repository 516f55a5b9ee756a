//! Starts models without an operator's command. The record's own rules give a command like an operator's.

use std::{sync::Arc, time::Duration};

use gantry_domain::model::{
    Model, ModelEvent, Phase,
    lifecycle::{Cause, Rules},
};
use gantry_store::{StoreResult, in_time};
use tracing::{info, warn};

use super::{record::KEPT_EVENTS, state::Worker};

impl Worker {
    /// Starts the model again as a new generation, unless an operator was faster.
    pub(super) async fn start_again(&mut self, model: &Model, cause: Cause) -> StoreResult<()> {
        // This gateway sees every failure from here on.
        self.boot = false;
        let control = Arc::clone(&self.control);
        let _turn = control.publisher.turn().await;
        in_time(Box::pin(self.start_again_now(model, cause))).await
    }

    async fn start_again_now(&self, model: &Model, cause: Cause) -> StoreResult<()> {
        let control = &self.control;
        let rules = Rules::of(model, &control.boot);
        let (ran, kind) = match &model.phase {
            Phase::Failed { ran_sec, failure, .. } => (Duration::from_secs(*ran_sec), failure.kind()),
            _ => (Duration::ZERO, "stopped"),
        };
        let starts = model.starts.clone().unwrap_or_default().and_again(control.steady.now(), ran);
        let (why, detail) = match cause {
            Cause::Failure => {
                let (n, limit) = (starts.again.len(), rules.limit);
                (kind, format!("started again by its restart policy ({n} of {limit} within an hour)"))
            }
            Cause::Autostart if rules.rebooted => {
                ("autostart", "started again by `autostart`: the machine was restarted".to_owned())
            }
            Cause::Autostart => (
                "autostart",
                "started again by `autostart`: its engine ended while no gateway watched it".to_owned(),
            ),
        };
        let mut tx = control.store.write().await?;
        control.supervision.fence(&mut tx)?;
        let Some(after) = tx.start_again(model, &starts).await? else { return Ok(()) };
        let (from, to) = (model.state().0, after.state().0);
        let event =
            ModelEvent { at: control.clock.now(), from, to, reason: None, detail: Some(detail.clone()) };
        tx.insert_event(model.id, &event).await?;
        tx.trim_events(model.id, KEPT_EVENTS).await?;
        control.publisher.commit(control, tx).await?;
        control.restarts.count(&model.served_name, why);
        match cause {
            Cause::Failure => warn!(model = model.id.0, why, "{detail}"),
            Cause::Autostart => info!(model = model.id.0, "{detail}"),
        }
        Ok(())
    }
}
