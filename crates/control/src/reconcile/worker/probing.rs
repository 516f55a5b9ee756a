//! Asks a model's engine how it is, and compares what runs with what a start would make now.

use std::time::{Duration, Instant};

use gantry_domain::{
    engine::{EngineAddress, instance_key, key_fingerprint},
    model::{Model, Phase, lifecycle::Health},
};
use gantry_runtime::Found;
use gantry_store::StoreResult;
use tracing::info;

use super::state::Worker;
use crate::{reconcile::mailbox::Sighting, runtime_status::Drift, upstreams};

/// Time that the runtime gets to notice that an engine that closed its port has ended.
const EXIT_SHOWS: Duration = Duration::from_millis(500);

/// How a pass goes on after a probe.
pub(super) enum AfterProbe {
    /// Nothing is to be done. This is the common case, and must cost little.
    Settled,
    /// The engine could not be asked.
    Unknown,
    /// The plan decides, with what the probe brought.
    Plan,
}

impl Worker {
    /// Whether the container was started with its own key, or with the current internal key as earlier versions of the
    /// gateway did.
    pub(super) fn has_our_key(&self, found: &Found) -> bool {
        let internal = &self.control.config.internal_key;
        let own = instance_key(internal, found.model_id, found.instance.generation);
        [&own, internal].into_iter().any(|it| found.key_fingerprint == key_fingerprint(it))
    }

    /// Whether a running engine is to be probed along with this tick, because no later tick is nearer to the end of the
    /// probe's period. A probe at another time costs one more query to the database and one to the container runtime; a
    /// tick asks them once for all models.
    pub(super) fn probe_is_due(&self, seen: &Sighting) -> bool {
        let config = &self.control.config;
        let soonest =
            config.supervision.health_poll_sec.saturating_sub(config.supervision.model_reconcile_sec / 2);
        matches!(seen.record.model.phase, Phase::Running { .. })
            && self.probed_at.is_none_or(|last| last.elapsed() >= soonest)
    }

    /// Returns when a running engine is probed if no tick comes first. It is a little later than the period, because a
    /// tick may be expected at the same moment.
    pub(super) fn own_turn(&self) -> Duration {
        let period = self.control.config.supervision.health_poll_sec;
        period + (period / 4).min(Duration::from_secs(1))
    }

    /// Probes the engine, and tells the breaker and the views of engines what it answers.
    pub(super) async fn probe(&mut self, model: &Model, address: &EngineAddress) -> StoreResult<Health> {
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
        let url = address.to_string();
        if let Some(route) = catalog.routes.get(&model.served_name)
            && let Some(upstream) = route.target.upstreams().iter().find(|it| it.url() == url)
        {
            // A refused key says nothing of the engine's health; requests get the reason from the engine itself.
            if health != Health::KeyRefused {
                upstreams::judge(upstream, health == Health::Ready);
            }
            self.control.upstreams.note(route, upstream, at, probed.into());
        }
        Ok(health)
    }

    /// Decides how a pass goes on after a probe of the engine of `model`.
    pub(super) async fn after_probe(&self, model: &Model, health: &Health) -> AfterProbe {
        let runs = matches!(model.phase, Phase::Running { .. });
        match health {
            Health::Unknown => return AfterProbe::Unknown,
            Health::Ready if runs => return AfterProbe::Settled,
            // The engine may be about to end, and its exit says more than a closed port. So look once more.
            Health::Closed { .. } if runs => tokio::time::sleep(EXIT_SHOWS).await,
            Health::OldKey if runs => {
                self.control.runtime_status.change(self.id, |it| it.drift = Some(Drift::InternalKey));
            }
            _ => {}
        }
        AfterProbe::Plan
    }

    /// Compares the container that runs with the one that a start of its blueprint would make now.
    pub(super) async fn note_drift(&self, seen: &Sighting) {
        let Some(found) =
            seen.found.as_ref().filter(|_| matches!(seen.record.model.phase, Phase::Running { .. }))
        else {
            return;
        };
        let control = &self.control;
        let drift = if self.has_our_key(found) {
            let launch = control.launch_now(&seen.record.model.as_launched()).await;
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
