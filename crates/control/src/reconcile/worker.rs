//! The worker of one model. It looks, decides with [`lifecycle::plan`], does one step, stores the result, and looks
//! again until there is nothing to do.

mod again;
mod record;

pub use record::note_stopped;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_dataplane::{RouteTarget, Upstream};
use gantry_domain::{
    ModelId, Timestamp,
    engine::{EngineAddress, instance_key, key_fingerprint},
    model::{
        Model, Phase,
        lifecycle::{
            self, Again, Deadlines, Failure, Health, Instance, InstanceStatus, Observed, Rules, Step,
        },
    },
};
use gantry_runtime::{Found, RuntimeError};
use gantry_store::{StoreResult, in_time};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Mail, Mailbox, Sighting, start};
use crate::{Control, diagnose, runtime_status::Drift, upstreams};

/// How often a loading engine is probed.
const LOADING_PROBE: Duration = Duration::from_secs(1);
/// How soon a running engine is probed again after a wrong answer.
const WRONG_PROBE: Duration = Duration::from_secs(5);
/// How often a swap checks whether the old engine's requests have ended.
const DRAINING_LOOK: Duration = Duration::from_millis(50);
/// Time that the runtime gets for a stop on top of the grace time.
const STOP_MARGIN: Duration = Duration::from_secs(30);
/// Time that the runtime gets to notice that an engine that closed its port has ended.
const EXIT_SHOWS: Duration = Duration::from_millis(500);
/// Pause before a restart that is already due is tried again.
const SOONEST_RESTART: Duration = Duration::from_millis(100);
/// Most steps of one pass. A plan that takes more goes in circles; the next wake-up continues.
const MAX_STEPS: usize = 16;

pub(super) struct Worker {
    id: ModelId,
    control: Arc<Control>,
    mailbox: Arc<Mailbox>,
    stop: CancellationToken,
    /// True until the first pass since the gateway's start has ended.
    boot: bool,
    since: Timestamp,
    /// Number of probes in a row that got no good answer.
    bad: u32,
    /// Whether the last of them was answered.
    answers: bool,
    /// When the last pass ended; sightings from before are out of date.
    looked_at: Option<Instant>,
    /// When the engine was probed last.
    probed_at: Option<Instant>,
    /// The engine that a swap takes out of service, and since when.
    draining: Option<(Arc<Upstream>, Instant)>,
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
    pub(super) fn new(
        id: ModelId,
        control: Arc<Control>,
        mailbox: Arc<Mailbox>,
        stop: CancellationToken,
    ) -> Self {
        let since = control.steady.now();
        Self {
            id,
            control,
            mailbox,
            stop,
            boot: true,
            since,
            bad: 0,
            answers: false,
            looked_at: None,
            probed_at: None,
            draining: None,
        }
    }

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
                () = mailbox.wake.notified() => {
                    let Mail { hinted, sighting } = mailbox.take();
                    if hinted {
                        return Some(None);
                    }
                    match sighting.filter(|it| self.looked_at.is_none_or(|last| it.at > last)) {
                        Some(it) if is_quiet(&self.control, &it) => {
                            self.note_drift(&it).await;
                            // A probe that is due uses the tick's sighting, and so needs no look of its own.
                            if self.probe_is_due(&it) {
                                return Some(Some(it));
                            }
                        }
                        Some(it) => return Some(Some(it)),
                        None => {}
                    }
                }
            }
        }
    }

    /// Looks and does what follows from it. `sighting` saves the first queries.
    pub(super) async fn pass(&mut self, mut sighting: Option<Sighting>) -> StoreResult<Next> {
        let mut health = Health::Unknown;
        for _ in 0..MAX_STEPS {
            if self.stop.is_cancelled() {
                // The next gateway continues from what is stored.
                return Ok(Next::In(LOADING_PROBE));
            }
            let (model, deleting, found) = if let Some(it) = sighting.take() {
                (it.model, it.deleting, Ok(it.found))
            } else {
                let Some((model, deleting)) = self.record().await? else {
                    self.control.runtime_status.forget(self.id);
                    return Ok(Next::Never);
                };
                let found = self.control.runtime.find(&model.instance_name()).await;
                (model, deleting, found)
            };
            let (instance, own_key) = match found {
                Ok(found) => (
                    found.as_ref().map(|it| it.instance.clone()),
                    found.is_some_and(|it| self.has_our_key(&it)),
                ),
                Err(error) => return self.blind(&model, &error).await,
            };
            let mut observed = self.observed(&model);
            observed.instance = instance.as_ref();
            observed.health = std::mem::replace(&mut health, Health::Unknown);
            match lifecycle::plan(&observed) {
                Step::Probe { address } => {
                    health = match self.probe(&model, &address).await? {
                        Health::KeyRefused if !own_key => Health::OldKey,
                        other => other,
                    };
                    match (&health, &model.phase) {
                        (Health::Unknown, _) => return Ok(Next::In(LOADING_PROBE)),
                        // The common case, which must cost little: nothing has changed.
                        (Health::Ready, Phase::Running { .. }) => {
                            self.boot = false;
                            return self.settled(&model, deleting, instance.as_ref()).await;
                        }
                        // The engine may be about to end, and its exit says more than a closed port. So look once more.
                        (Health::Closed { .. }, Phase::Running { .. }) => {
                            tokio::time::sleep(EXIT_SHOWS).await;
                        }
                        (Health::OldKey, Phase::Running { .. }) => {
                            self.control
                                .runtime_status
                                .change(self.id, |it| it.drift = Some(Drift::InternalKey));
                        }
                        _ => {}
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

    /// Whether the container was started with its own key, or with the current internal key as earlier versions of the
    /// gateway did.
    fn has_our_key(&self, found: &Found) -> bool {
        let internal = &self.control.config.internal_key;
        let own = instance_key(internal, found.model_id, found.instance.generation);
        [&own, internal].into_iter().any(|it| found.key_fingerprint == key_fingerprint(it))
    }

    /// Whether a running engine is to be probed along with this tick, because no later tick is nearer to the end of the
    /// probe's period. A probe at another time costs one more query to the database and one to the container runtime; a
    /// tick asks them once for all models.
    fn probe_is_due(&self, seen: &Sighting) -> bool {
        let config = &self.control.config;
        let soonest = config.probe_every.saturating_sub(config.reconcile_every / 2);
        matches!(seen.model.phase, Phase::Running { .. })
            && self.probed_at.is_none_or(|last| last.elapsed() >= soonest)
    }

    /// Returns when a running engine is probed if no tick comes first. It is a little later than the period, because a
    /// tick may be expected at the same moment.
    fn own_turn(&self) -> Duration {
        let period = self.control.config.probe_every;
        period + (period / 4).min(Duration::from_secs(1))
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
            in_flight: self.draining.as_ref().map_or(0, in_flight),
            rules: Rules::of(model, &self.control.boot),
        }
    }

    fn deadlines(&self, model: &Model) -> Deadlines {
        let config = &self.control.config;
        let swap = model.apply.as_ref().is_some_and(|it| it.swap);
        Deadlines {
            startup: config.startup(model),
            stop: config.stop_grace + STOP_MARGIN,
            drain: if swap { config.drain } else { Duration::ZERO },
        }
    }

    async fn record(&self) -> StoreResult<Option<(Model, bool)>> {
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
        if deleting && instance.is_none() && matches!(model.phase, Phase::Stopped { .. }) {
            let _turn = self.control.publisher.turn().await;
            let mut tx = self.control.store.write().await?;
            self.control.supervision.fence(&mut tx)?;
            tx.delete_model(self.id).await?;
            tx.commit().await?;
            self.control.runtime_status.forget(self.id);
            info!(model = self.id.0, "the record is deleted");
            return Ok(Next::Never);
        }
        if model.diagnosis.is_none() {
            // The gateway ended between the failure and its diagnosis.
            diagnose::note(&self.control, model).await;
        }
        if model.rollback_to().is_some() && self.roll_back().await? {
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
                Next::In(self.control.config.probe_every.min(WRONG_PROBE))
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
            Phase::Running { .. } => Next::In(self.control.config.probe_every),
            // The reconciler's tick looks again.
            Phase::Stopped { .. } | Phase::Failed { .. } if model.phase.generation() == model.generation => {
                Next::WhenWoken
            }
            _ => Next::In(LOADING_PROBE),
        })
    }

    async fn probe(&mut self, model: &Model, address: &EngineAddress) -> StoreResult<Health> {
        self.probed_at = Some(Instant::now());
        let launched = model.as_launched();
        let at = self.control.clock.now();
        let probed = self.control.prober.probe(&launched, address).await;
        if probed.health == Health::Unknown {
            return Ok(Health::Unknown);
        }
        let health = match probed.health.clone() {
            Health::Slow { .. } => {
                self.bad += 1;
                Health::Slow { n: self.bad }
            }
            Health::Wrong { detail, .. } => {
                self.bad += 1;
                Health::Wrong { n: self.bad, detail }
            }
            other => {
                self.bad = 0;
                other
            }
        };
        self.answers = matches!(health, Health::Wrong { .. });
        if let (Some(instance), Some(context)) = (model.phase.instance(), probed.max_model_len)
            && self.control.publisher.learn(instance, context).await
        {
            self.control.publisher.publish(&self.control).await?;
        }
        let catalog = self.control.shared.catalog.load();
        if let Some(route) = catalog.routes.get(&model.served_name)
            && let RouteTarget::Up(upstream) = &route.target
        {
            // A refused key says nothing of the engine's health; requests get the reason from the engine itself.
            if health != Health::KeyRefused {
                upstreams::judge(upstream, health == Health::Ready);
            }
            self.control.upstreams.note(route, upstream, at, probed.into());
        }
        Ok(health)
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
                let done = match runtime.stop(&id, self.control.config.stop_grace).await {
                    Ok(()) => runtime.remove(&id).await,
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
                let done = runtime.stop(&id, self.control.config.stop_grace).await;
                Ok(self.done(&done, "the failed engine could not be stopped"))
            }
            Step::Restart(cause) => self.start_again(model, cause).await.map(|()| true),
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
            if !matches!(self.record().await, Ok(Some((model, _))) if model.generation == generation) {
                // The waiting after this pass must notice the command too.
                self.mailbox.put(None);
                return;
            }
        }
    }

    /// Compares the container that runs with the one that a start of its blueprint would make now.
    async fn note_drift(&self, seen: &Sighting) {
        let Some(found) = seen.found.as_ref().filter(|_| matches!(seen.model.phase, Phase::Running { .. }))
        else {
            return;
        };
        let control = &self.control;
        let drift = if self.has_our_key(found) {
            let launch = control.launch_now(&seen.model.as_launched()).await;
            launch.is_some_and(|it| it.spec_hash() != found.spec_hash).then_some(Drift::Launch)
        } else {
            Some(Drift::InternalKey)
        };
        if control.runtime_status.of(self.id).drift != drift {
            info!(model = self.id.0, ?drift, "what a start would make now, against what runs");
            control.runtime_status.change(self.id, |it| it.drift = drift);
        }
    }
}

/// Whether a container is as the record says, so that there is nothing to do but to probe it from time to time.
fn is_quiet(control: &Control, it: &Sighting) -> bool {
    let instance = it.found.as_ref().map(|found| &found.instance);
    // A change of the record may have made a restart due, or cancelled one.
    let again = Rules::of(&it.model, &control.boot).after(&it.model.phase);
    let given_up = again == Again::GivenUp;
    !it.deleting
        && control.runtime_status.of(it.model.id).given_up == given_up
        && !matches!(again, Again::At(_))
        && it.model.phase.generation() == it.model.generation
        && match (&it.model.phase, instance) {
            (Phase::Running { instance, address, .. }, Some(seen)) => {
                let up = InstanceStatus::Running { address: Some(address.clone()) };
                seen.id == *instance && seen.status == up
            }
            (Phase::Stopped { .. } | Phase::Failed { .. }, None) => true,
            (Phase::Failed { .. }, Some(seen)) => !matches!(seen.status, InstanceStatus::Running { .. }),
            _ => false,
        }
}

/// Returns the number of requests in flight at an engine that left the routes at `since`. Shortly after that it is at
/// least one: a request may have chosen the engine and not be counted yet.
fn in_flight((upstream, since): &(Arc<Upstream>, Instant)) -> u32 {
    let n = upstream.in_flight.load(Relaxed);
    if since.elapsed() < DRAINING_LOOK { n.max(1) } else { n }
}
