//! The worker of one model. It looks, decides with [`lifecycle::plan`], does one step, stores the result, and looks
//! again until there is nothing to do.

mod again;
mod probing;
mod record;
mod state;

pub use record::note_stopped;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_domain::model::{
    Model, Phase,
    lifecycle::{self, Again, Deadlines, Failure, Health, Instance, InstanceStatus, Observed, Rules, Step},
};
use gantry_runtime::{Found, RuntimeError, RuntimeResult};
use gantry_store::{ModelToReconcile, StoreResult, in_time};
use tracing::{info, warn};

pub(super) use self::state::Worker;
use self::{
    probing::AfterProbe,
    state::{DRAINING_LOOK, Draining},
};
use super::{
    mailbox::{Mail, Sighting},
    start,
};
use crate::{Control, diagnose, previous_log};

/// How often a loading engine is probed.
const LOADING_PROBE: Duration = Duration::from_secs(1);
/// How soon a running engine is probed again after a wrong answer.
const WRONG_PROBE: Duration = Duration::from_secs(5);
/// Time that the runtime gets for a stop on top of the grace time.
const STOP_MARGIN: Duration = Duration::from_secs(30);
/// Pause before a restart that is already due is tried again.
const SOONEST_RESTART: Duration = Duration::from_millis(100);
/// Most steps of one pass. A plan that takes more goes in circles; the next wake-up continues.
const MAX_STEPS: usize = 16;

/// A model as a pass sees it.
struct Snapshot {
    record: ModelToReconcile,
    /// Its container, if it has one.
    found: RuntimeResult<Option<Found>>,
}

/// What to do after a pass.
pub(super) enum Next {
    /// Look again after this time, or when woken.
    In(Duration),
    /// Nothing changes by itself: look again only when woken.
    WhenWoken,
    /// The record is gone.
    Never,
}

impl Worker {
    pub(super) async fn run(mut self) {
        let mut sighting = self.mailbox.take().sighting;
        loop {
            // Boxed: the futures of database transactions are large.
            let next = match Box::pin(self.pass(sighting.take())).await {
                Ok(next) => next,
                Err(error) => {
                    let cause = &error as &dyn std::error::Error;
                    warn!(model = self.id.0, error = cause, "a look at the model failed; it is repeated");
                    Next::In(Duration::from_secs(1))
                }
            };
            self.looked_at = Some(Instant::now());
            let pause = match next {
                Next::Never => return,
                Next::In(pause) => Some(pause),
                Next::WhenWoken => None,
            };
            match self.rest(pause).await {
                Some(seen) => sighting = seen,
                None => return,
            }
        }
    }

    /// Waits until there is something to look at; `None` when the gateway stops.
    async fn rest(&mut self, pause: Option<Duration>) -> Option<Option<Sighting>> {
        let mailbox = Arc::clone(&self.mailbox);
        let timer = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timer);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = &mut timer => return Some(None),
                () = mailbox.wake.notified() => {}
            }
            if let Some(seen) = self.read(mailbox.take()).await {
                return Some(seen);
            }
        }
    }

    /// Returns what to look at because of a mail; `None` if there is nothing to do.
    async fn read(&mut self, mail: Mail) -> Option<Option<Sighting>> {
        if mail.hinted {
            return Some(None);
        }
        let seen = mail.sighting.filter(|it| self.looked_at.is_none_or(|last| it.at > last))?;
        if self.restored.as_ref() == Some(&seen.record.restored) && is_quiet(&self.control, &seen) {
            self.note_drift(&seen).await;
            // A probe that is due uses the tick's sighting, and so needs no look of its own.
            if !self.probe_is_due(&seen) {
                return None;
            }
        }
        Some(Some(seen))
    }

    /// Looks and does what follows from it. `sighting` saves the first queries.
    pub(super) async fn pass(&mut self, mut sighting: Option<Sighting>) -> StoreResult<Next> {
        let mut health = Health::Unknown;
        for _ in 0..MAX_STEPS {
            if self.stop.is_cancelled() {
                // The next gateway continues from what is stored.
                return Ok(Next::In(LOADING_PROBE));
            }
            let Some(Snapshot { record, found }) = self.refresh(sighting.take()).await? else {
                self.control.runtime_status.forget(self.id);
                previous_log::forget(&self.control, self.id).await;
                return Ok(Next::Never);
            };
            if self.follow_restore(&record.restored) {
                health = Health::Unknown;
            }
            let ModelToReconcile { model, deleting, .. } = record;
            let found = match found {
                Ok(found) => found,
                Err(error) => return self.blind(&model, &error).await,
            };
            if let Some(it) = found.as_ref().filter(|it| self.is_foreign(&model, it)) {
                if self.end_foreign(it).await {
                    continue;
                }
                return Ok(Next::In(LOADING_PROBE));
            }
            let instance = found.as_ref().map(|it| &it.instance);
            let mut observed = self.observed(&model);
            observed.instance = instance;
            observed.health = std::mem::replace(&mut health, Health::Unknown);
            let over = match lifecycle::plan(&observed) {
                Step::Probe { address } => {
                    health = self.probe(&model, &address).await?;
                    if health == Health::KeyRefused && !found.as_ref().is_some_and(|it| self.has_our_key(it))
                    {
                        health = Health::OldKey;
                    }
                    match self.after_probe(&model, &health).await {
                        AfterProbe::Settled => Some(self.settled(&model, deleting, instance).await?),
                        AfterProbe::Unknown => Some(Next::In(LOADING_PROBE)),
                        AfterProbe::Plan => None,
                    }
                }
                Step::Wait => Some(self.settled(&model, deleting, instance).await?),
                step => {
                    let done = Box::pin(self.perform(&model, step)).await?;
                    (!done).then_some(Next::In(LOADING_PROBE))
                }
            };
            if let Some(next) = over {
                return Ok(next);
            }
        }
        Ok(Next::In(LOADING_PROBE))
    }

    /// Returns the model and its container; `None` if the record is gone.
    async fn refresh(&self, sighting: Option<Sighting>) -> StoreResult<Option<Snapshot>> {
        if let Some(Sighting { record, found, .. }) = sighting {
            return Ok(Some(Snapshot { record, found: Ok(found) }));
        }
        let Some(record) = self.record().await? else { return Ok(None) };
        let found = self.control.runtime.find(&record.model.instance_name()).await;
        Ok(Some(Snapshot { record, found }))
    }

    /// Returns what is known before any query.
    fn observed<'a>(&self, model: &'a Model) -> Observed<'a> {
        Observed {
            wanted: model.wanted,
            generation: model.generation,
            phase: &model.phase,
            instance: None,
            health: Health::Unknown,
            boot: self.boot,
            watched_since: self.since,
            now: self.control.steady.now(),
            deadlines: self.deadlines(model),
            in_flight: self.draining.as_ref().map_or(0, Draining::in_flight),
            rules: Rules::of(model, &self.control.boot),
        }
    }

    fn deadlines(&self, model: &Model) -> Deadlines {
        let config = &self.control.config;
        let swap = model.apply.as_ref().is_some_and(|it| it.swap);
        Deadlines {
            startup: config.startup(model),
            stop: config.engines.stop_timeout_sec + STOP_MARGIN,
            drain: if swap { config.drain } else { Duration::ZERO },
        }
    }

    async fn record(&self) -> StoreResult<Option<ModelToReconcile>> {
        let _turn = self.control.publisher.turn().await;
        in_time(async { self.control.store.read().await?.model_for_reconcile(self.id).await }).await
    }

    /// Handles a model for which there is nothing to do now. Returns when to look again.
    async fn settled(
        &mut self,
        model: &Model,
        deleting: bool,
        instance: Option<&Instance>,
    ) -> StoreResult<Next> {
        (self.boot, self.is_new_record) = (false, false);
        if deleting && instance.is_none() && matches!(model.phase, Phase::Stopped { .. }) {
            let _turn = self.control.publisher.turn().await;
            let mut tx = self.control.store.write().await?;
            self.control.supervision.fence(&mut tx)?;
            tx.delete_model(model).await?;
            tx.commit().await?;
            self.control.runtime_status.forget(self.id);
            previous_log::forget(&self.control, self.id).await;
            info!(model = self.id.0, "the record is deleted");
            return Ok(Next::Never);
        }
        if model.diagnosis.is_none() {
            // The gateway ended between the failure and its diagnosis.
            diagnose::note(&self.control, model).await;
        }
        if model.rollback_to().is_some() && Box::pin(self.roll_back()).await? {
            return Ok(Next::In(Duration::ZERO));
        }
        let again = Rules::of(model, &self.control.boot).after(&model.phase);
        let given_up = again == Again::GivenUp;
        if self.control.runtime_status.of(self.id).given_up != given_up {
            self.control.runtime_status.change(self.id, |it| it.given_up = given_up);
        }
        Ok(match model.phase {
            // A wrong answer comes at once and not because of load. So another probe soon makes it clear.
            Phase::Running { .. } if self.answers => {
                Next::In(self.control.config.supervision.health_poll_sec.min(WRONG_PROBE))
            }
            Phase::Running { .. } => Next::In(self.own_turn()),
            Phase::Stopping { .. } if self.draining.is_some() => Next::In(DRAINING_LOOK),
            Phase::Loading { .. } | Phase::Starting { .. } | Phase::Stopping { .. } => {
                Next::In(LOADING_PROBE)
            }
            Phase::Failed { .. } if let Again::At(then) = again => {
                Next::In(then.since(self.control.steady.now()).max(SOONEST_RESTART))
            }
            Phase::Stopped { .. } | Phase::Failed { .. } => Next::WhenWoken,
        })
    }

    /// Handles a model while the container runtime does not answer.
    async fn blind(&mut self, model: &Model, error: &RuntimeError) -> StoreResult<Next> {
        let mut observed = self.observed(model);
        let mut step = lifecycle::plan_blind(&observed, &error.to_string());
        if let Step::Probe { address } = step {
            // The probe's result goes to the breaker. An address that refuses connections meanwhile says nothing about the
            // container.
            observed.health = self.probe(model, &address).await?;
            step = lifecycle::plan_blind(&observed, &error.to_string());
        }
        if let Step::Record(phase) = step {
            self.store(model, phase).await?;
        }
        Ok(match model.phase {
            Phase::Running { .. } => Next::In(self.control.config.supervision.health_poll_sec),
            // The reconciler's tick looks again.
            Phase::Stopped { .. } | Phase::Failed { .. } if model.phase.generation() == model.generation => {
                Next::WhenWoken
            }
            _ => Next::In(LOADING_PROBE),
        })
    }

    /// Does one step. Returns `false` if it could not be done now: look again later.
    async fn perform(&mut self, model: &Model, step: Step) -> StoreResult<bool> {
        let runtime = Arc::clone(&self.control.runtime);
        match step {
            Step::Record(phase) => self.store(model, phase).await.map(|()| true),
            Step::Launch => {
                let superseded = self.superseded(model.generation);
                let launched = Box::pin(start::launch(&self.control, &model.as_launched(), superseded)).await;
                self.control.runtime_status.change(self.id, |it| it.pull = None);
                match launched {
                    Ok(()) | Err(start::NoStart::Superseded) => Ok(true),
                    Err(start::NoStart::Failed(failure)) => {
                        self.store(model, self.failed(model, failure)).await.map(|()| true)
                    }
                }
            }
            Step::Remove(id) => {
                let done = match runtime.stop(&id, self.control.config.engines.stop_timeout_sec).await {
                    Ok(()) => {
                        previous_log::keep(&self.control, self.id, &id).await;
                        runtime.remove(&id).await
                    }
                    Err(error) => Err(error),
                };
                Ok(self.done(&done, "the container could not be removed"))
            }
            Step::Halt(id, phase) => {
                // The phase is stored before the clean-up, so that no more requests are sent there. If only the
                // clean-up is repeated, the phase is stored already.
                if !matches!(model.phase, Phase::Failed { generation, .. } if generation == model.generation)
                {
                    self.store(model, phase).await?;
                }
                let done = runtime.stop(&id, self.control.config.engines.stop_timeout_sec).await;
                Ok(self.done(&done, "the failed engine could not be stopped"))
            }
            Step::Restart(cause) => self.start_again(model, cause).await.map(|()| true),
            Step::Probe { .. } | Step::Wait => Ok(true),
        }
    }

    /// Ends an instance that has the name of the model's and belongs to no record. Returns whether it is gone.
    async fn end_foreign(&self, found: &Found) -> bool {
        let (runtime, id) = (&self.control.runtime, &found.instance.id);
        let done = match runtime.stop(id, self.control.config.engines.stop_timeout_sec).await {
            Ok(()) => runtime.remove(id).await,
            Err(error) => Err(error),
        };
        if done.is_ok() {
            self.control.orphans_stopped.fetch_add(1, Relaxed);
            warn!(
                model = self.id.0,
                container = found.name,
                "an engine from before the restore was stopped and removed"
            );
        }
        self.done(&done, "an engine from before the restore could not be removed")
    }

    fn done(&self, result: &Result<(), RuntimeError>, what: &str) -> bool {
        if let Err(error) = result {
            warn!(model = self.id.0, %error, "{what}; it is repeated");
        }
        result.is_ok()
    }

    fn failed(&self, model: &Model, failure: Failure) -> Phase {
        Phase::Failed {
            generation: model.generation,
            failure,
            at: self.control.steady.now(),
            ran_sec: 0,
            unwatched: false,
        }
    }

    /// Returns when the operator has given another command since.
    async fn superseded(&self, generation: i64) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.mailbox.wake.notified() => {}
            }
            if !matches!(self.record().await, Ok(Some(it)) if it.model.generation == generation) {
                // The waiting after this pass must notice the command too.
                self.mailbox.put(None);
                return;
            }
        }
    }
}

/// Whether a container is as the record says, so that there is nothing to do but to probe it from time to time.
fn is_quiet(control: &Control, it: &Sighting) -> bool {
    let instance = it.found.as_ref().map(|found| &found.instance);
    // A change of the record may have made a restart due, or cancelled one.
    let model = &it.record.model;
    let again = Rules::of(model, &control.boot).after(&model.phase);
    let given_up = again == Again::GivenUp;
    !it.record.deleting
        && control.runtime_status.of(model.id).given_up == given_up
        && !matches!(again, Again::At(_))
        && model.phase.generation() == model.generation
        && match (&model.phase, instance) {
            (Phase::Running { instance, address, .. }, Some(seen)) => {
                let up = InstanceStatus::Running { address: Some(address.clone()) };
                seen.id == *instance && seen.status == up
            }
            (Phase::Stopped { .. } | Phase::Failed { .. }, None) => true,
            (Phase::Failed { .. }, Some(seen)) => !matches!(seen.status, InstanceStatus::Running { .. }),
            _ => false,
        }
}
