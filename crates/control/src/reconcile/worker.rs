//! One model's worker: looks, decides with [`lifecycle::plan`], does one step, stores what became of it, and looks
//! again until there is nothing to do.

use std::{sync::Arc, time::Duration};

use gantry_dataplane::{
    RouteTarget,
    breaker::{State as BreakerState, Verdict},
};
use gantry_domain::{
    ModelId,
    model::{
        Model, ModelEvent, Phase, State,
        lifecycle::{self, Deadlines, Failure, Health, Instance, Observed, Step},
    },
};
use gantry_runtime::RuntimeError;
use gantry_store::StoreResult;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::start;
use crate::{Control, probe};

/// How often a loading engine is probed.
const LOADING_PROBE: Duration = Duration::from_secs(1);
/// What the runtime may take for a stop on top of the grace time.
const STOP_MARGIN: Duration = Duration::from_secs(30);
/// How long the runtime may take to notice that an engine that closed its port has ended.
const EXIT_SHOWS: Duration = Duration::from_millis(500);
/// A plan that takes more steps than this in one pass goes in circles; the next wake-up goes on.
const MAX_STEPS: usize = 16;
/// Timeline entries that are kept of a model.
const KEPT_EVENTS: i64 = 500;

pub(super) struct Worker {
    id: ModelId,
    control: Arc<Control>,
    wake: Arc<Notify>,
    stop: CancellationToken,
    /// No pass has ended yet since the gateway came up.
    boot: bool,
    /// Probes in a row that got no answer.
    slow: u32,
}

/// What to do after a pass.
enum Next {
    /// Look again after this time, or when woken.
    In(Duration),
    /// Nothing changes by itself: look again when woken.
    WhenWoken,
    /// The record is gone.
    Never,
}

impl Worker {
    pub(super) fn new(
        id: ModelId,
        control: Arc<Control>,
        wake: Arc<Notify>,
        stop: CancellationToken,
    ) -> Self {
        Self { id, control, wake, stop, boot: true, slow: 0 }
    }

    pub(super) async fn run(mut self) -> ModelId {
        loop {
            // Boxed: the futures of database transactions are large.
            let next = match Box::pin(self.pass()).await {
                Ok(next) => next,
                Err(error) => {
                    let cause = &error as &dyn std::error::Error;
                    warn!(model = self.id.0, error = cause, "a look at the model failed; it is repeated");
                    Next::In(Duration::from_secs(1))
                }
            };
            let pause = match next {
                Next::Never => return self.id,
                Next::In(pause) => Some(pause),
                Next::WhenWoken => None,
            };
            let timer = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return self.id,
                () = self.wake.notified() => {}
                () = timer => {}
            }
        }
    }

    async fn pass(&mut self) -> StoreResult<Next> {
        let mut health = Health::Unknown;
        for _ in 0..MAX_STEPS {
            let Some((model, deleting)) = self.record().await? else { return Ok(Next::Never) };
            let instance = match self.control.runtime.find(&model.container_name()).await {
                Ok(found) => found.map(|it| it.instance),
                Err(error) => return self.blind(&model, &error).await,
            };
            let step = lifecycle::plan(&Observed {
                wanted: model.wanted,
                generation: model.generation,
                phase: &model.phase,
                instance: instance.as_ref(),
                health: std::mem::replace(&mut health, Health::Unknown),
                boot: self.boot,
                now: self.control.clock.now(),
                deadlines: self.deadlines(&model),
            });
            match step {
                Step::Probe { port } => {
                    health = self.probe(&model, port).await?;
                    if matches!((&health, &model.phase), (Health::NotYet { .. }, Phase::Running { .. })) {
                        // It may be at its end, and how it ended says more than a closed port: look once more.
                        tokio::time::sleep(EXIT_SHOWS).await;
                    }
                }
                Step::Wait => {
                    self.boot = false;
                    return self.settled(&model, deleting, instance.as_ref()).await;
                }
                step => {
                    if !Box::pin(self.perform(&model, step)).await? {
                        return Ok(Next::In(LOADING_PROBE));
                    }
                }
            }
        }
        Ok(Next::In(LOADING_PROBE))
    }

    fn deadlines(&self, model: &Model) -> Deadlines {
        let config = &self.control.config;
        Deadlines { startup: config.startup(model), stop: config.stop_grace + STOP_MARGIN }
    }

    async fn record(&self) -> StoreResult<Option<(Model, bool)>> {
        self.control.store.read().await?.model_for_reconcile(self.id).await
    }

    /// Nothing to do now: when to look again.
    async fn settled(
        &mut self,
        model: &Model,
        deleting: bool,
        instance: Option<&Instance>,
    ) -> StoreResult<Next> {
        if deleting && instance.is_none() && matches!(model.phase, Phase::Stopped { .. }) {
            let mut tx = self.control.store.write().await?;
            tx.delete_model(self.id).await?;
            tx.commit().await?;
            info!(model = self.id.0, "the record is deleted");
            return Ok(Next::Never);
        }
        Ok(match model.phase {
            Phase::Running { .. } => Next::In(self.control.config.probe_every),
            Phase::Loading { .. } | Phase::Starting { .. } | Phase::Stopping { .. } => {
                Next::In(LOADING_PROBE)
            }
            Phase::Stopped { .. } | Phase::Failed { .. } => Next::WhenWoken,
        })
    }

    /// The container runtime does not answer.
    async fn blind(&mut self, model: &Model, error: &RuntimeError) -> StoreResult<Next> {
        let mut observed = Observed {
            wanted: model.wanted,
            generation: model.generation,
            phase: &model.phase,
            instance: None,
            health: Health::Unknown,
            boot: self.boot,
            now: self.control.clock.now(),
            deadlines: self.deadlines(model),
        };
        let mut step = lifecycle::plan_blind(&observed, &error.to_string());
        if let Step::Probe { port } = step {
            // Its verdict goes to the breaker; a port that is refused meanwhile says nothing about the container.
            observed.health = self.probe(model, port).await?;
            step = lifecycle::plan_blind(&observed, &error.to_string());
        }
        if let Step::Record(phase) = step {
            self.store(model, phase).await?;
        }
        Ok(match model.phase {
            Phase::Running { .. } => Next::In(self.control.config.probe_every),
            // The reconciler's tick looks again.
            Phase::Stopped { .. } | Phase::Failed { .. } if model.phase.generation() == model.generation => {
                Next::WhenWoken
            }
            _ => Next::In(LOADING_PROBE),
        })
    }

    async fn probe(&mut self, model: &Model, port: u16) -> StoreResult<Health> {
        let probed = probe::probe(model, port, &self.control.config.internal_key).await;
        let health = match probed.health {
            Health::Slow { .. } => {
                self.slow += 1;
                Health::Slow { n: self.slow }
            }
            other => {
                self.slow = 0;
                other
            }
        };
        if let (Some(instance), Some(context)) = (model.phase.instance(), probed.max_model_len)
            && self.control.publisher.learn(instance, context).await
        {
            self.control.publisher.publish(&self.control).await?;
        }
        // Probes and requests feed the same breaker. A good probe counts while it is open, as the trial; while it is
        // closed it says nothing about requests, and must not forgive an engine that fails every one of them.
        let catalog = self.control.shared.catalog.load();
        if let Some(RouteTarget::Up(upstream)) = catalog.routes.get(&model.served_name).map(|it| &it.target) {
            let (breaker, now) = (&upstream.breaker, std::time::Instant::now());
            if health != Health::Ready {
                breaker.record(Verdict::Failure, now);
            } else if breaker.snapshot(now).state != BreakerState::Closed {
                breaker.record(Verdict::Success, now);
            }
        }
        Ok(health)
    }

    /// Does one step. `false`: it could not be done now, look again later.
    async fn perform(&mut self, model: &Model, step: Step) -> StoreResult<bool> {
        let runtime = &self.control.runtime;
        match step {
            Step::Record(phase) => self.store(model, phase).await.map(|()| true),
            Step::Launch => {
                let superseded = self.superseded(model.generation);
                match Box::pin(start::launch(&self.control, model, superseded)).await {
                    Ok(()) | Err(start::NoStart::Superseded) => Ok(true),
                    Err(start::NoStart::Failed(failure)) => {
                        self.store(model, self.failed(model, failure)).await.map(|()| true)
                    }
                }
            }
            Step::Remove(id) => {
                let done = match runtime.stop(&id, self.control.config.stop_grace).await {
                    Ok(()) => runtime.remove(&id).await,
                    Err(error) => Err(error),
                };
                Ok(self.done(&done, "the container could not be removed"))
            }
            Step::Halt(id, phase) => {
                // First the truth, then the clean-up: no request may be sent there any more.
                self.store(model, phase).await?;
                let done = runtime.stop(&id, self.control.config.stop_grace).await;
                Ok(self.done(&done, "the failed engine could not be stopped"))
            }
            Step::Probe { .. } | Step::Wait => Ok(true),
        }
    }

    fn done(&self, result: &Result<(), RuntimeError>, what: &str) -> bool {
        if let Err(error) = result {
            warn!(model = self.id.0, %error, "{what}; it is repeated");
        }
        result.is_ok()
    }

    fn failed(&self, model: &Model, failure: Failure) -> Phase {
        Phase::Failed { generation: model.generation, failure, at: self.control.clock.now() }
    }

    /// Returns when the operator has given another command since.
    async fn superseded(&self, generation: i64) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.wake.notified() => {}
            }
            if !matches!(self.record().await, Ok(Some((model, _))) if model.generation == generation) {
                // The pass that is under way must see it too.
                self.wake.notify_one();
                return;
            }
        }
    }

    /// Stores a phase with its place in the timeline, unless the operator was faster; then tells everybody.
    async fn store(&self, model: &Model, phase: Phase) -> StoreResult<()> {
        let control = &self.control;
        let (from, _) = model.state();
        let after = Model { phase: phase.clone(), ..model.clone() };
        let (to, reason) = after.state();
        let mut tx = control.store.write().await?;
        if !tx.record_phase(model.id, model.generation, &phase).await? {
            return Ok(());
        }
        if from != to || reason.is_some() {
            let detail = took(model, to, control.clock.now());
            let event = ModelEvent { at: control.clock.now(), from, to, reason: reason.clone(), detail };
            tx.insert_event(model.id, &event).await?;
            tx.trim_events(model.id, KEPT_EVENTS).await?;
        }
        control.publisher.commit(control, tx).await?;
        if to == State::Failed {
            warn!(model = model.id.0, from = %from, reason, "model failed");
        } else {
            info!(model = model.id.0, from = %from, to = %to, reason, "model state");
        }
        // Nobody may be listening.
        let _ = control.phases.send((model.id, phase));
        Ok(())
    }
}

/// How long the state before took, where that is worth knowing.
fn took(model: &Model, to: State, now: gantry_domain::Timestamp) -> Option<String> {
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
