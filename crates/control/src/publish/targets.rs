//! Decides where the requests of each route go, and remembers the engines from one catalog to the next.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gantry_connect::Connector;
use gantry_dataplane::{
    RouteTarget, Upstream,
    breaker::{self, Breaker},
};
use gantry_domain::{
    ModelId,
    engine::{EngineAddress, key_of},
    listeners::Listeners,
    model::{
        Model, Phase, State,
        lifecycle::{InstanceId, Serving},
    },
    net::MAX_ENGINE_URLS,
};
use gantry_store::RegistryEntry;
use secrecy::{ExposeSecret, SecretString};
use tracing::warn;

use crate::Control;

/// Identifies an engine: one with an equal place is the same as before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Managed {
        instance: InstanceId,
        address: EngineAddress,
    },
    /// An engine of the registry. A changed key makes another engine; only its hash is kept in memory a second time.
    Manual {
        served_name: String,
        url: String,
        key: Option<[u8; 32]>,
    },
}

/// An engine that requests may go to.
struct Engine<'a> {
    place: Place,
    served_name: &'a str,
    url: &'a str,
    key: Option<&'a str>,
    /// See [`Upstream::guarded`].
    guard: Option<&'a Arc<Listeners>>,
}

/// Makes upstreams for engines that were not there before.
pub(super) struct UpstreamFactory {
    next_id: AtomicU64,
    breaker: breaker::Settings,
    stall_floor: Duration,
    /// One connector for all engines, so that certificates are read once.
    connector: Arc<Connector>,
}

impl UpstreamFactory {
    pub(super) fn new(breaker: breaker::Settings) -> Self {
        let stall_floor = Duration::from_secs(30);
        Self { next_id: AtomicU64::new(1), breaker, stall_floor, connector: Arc::default() }
    }

    /// See [`Upstream::with_stall_floor`].
    pub(super) fn with_stall_floor(self, stall_floor: Duration) -> Self {
        Self { stall_floor, ..self }
    }

    fn make(&self, engine: &Engine<'_>) -> Option<Arc<Upstream>> {
        let id = self.next_id.fetch_add(1, Relaxed);
        match Upstream::new(id, engine.url, engine.key, Arc::new(Breaker::new(self.breaker))) {
            Ok(upstream) => {
                let upstream = upstream.with_connector(Arc::clone(&self.connector));
                let upstream = upstream.with_stall_floor(self.stall_floor).with_name(engine.served_name);
                Some(Arc::new(match engine.guard {
                    Some(allowed) => upstream.guarded(Arc::clone(allowed)),
                    None => upstream,
                }))
            }
            Err(error) => {
                warn!(url = engine.url, %error, "an engine can't be routed to");
                None
            }
        }
    }
}

/// What is known of engines, from one catalog to the next.
#[derive(Default)]
pub(super) struct Known {
    upstreams: HashMap<Place, Arc<Upstream>>,
    /// Context lengths that engines reported, in tokens.
    contexts: HashMap<InstanceId, i64>,
    /// What was last seen of each model.
    phases: HashMap<ModelId, Phase>,
    /// Where each model's requests went last; alive as long as one of them is.
    last: HashMap<ModelId, Vec<Weak<Upstream>>>,
}

impl Known {
    /// Notes the context length that an engine reported. Returns whether it is new.
    pub(super) fn learn(&mut self, instance: &InstanceId, max_model_len: i64) -> bool {
        self.contexts.insert(instance.clone(), max_model_len) != Some(max_model_len)
    }

    /// Returns the engines that requests for a model were sent to last, as far as any of them still runs.
    pub(super) fn last_upstreams(&self, id: ModelId) -> Vec<Arc<Upstream>> {
        self.last.get(&id).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Whether the model was in another phase when it was last seen.
    pub(super) fn is_outdated(&self, model: &Model) -> bool {
        self.phases.get(&model.id).is_some_and(|it| *it != model.phase)
    }
}

/// The targets of the routes of one catalog.
pub(super) struct Targets<'a> {
    control: &'a Control,
    factory: &'a UpstreamFactory,
    before: &'a Known,
    /// What will be known with this catalog.
    next: Known,
    /// Whether this gateway reaches the engines of the gateway that supervises.
    reached: bool,
}

impl<'a> Targets<'a> {
    pub(super) fn new(
        control: &'a Control,
        factory: &'a UpstreamFactory,
        before: &'a Known,
        reached: bool,
    ) -> Self {
        let alive = |all: &&Vec<Weak<Upstream>>| all.iter().any(|it| it.strong_count() > 0);
        let last = before.last.iter().filter(|(_, it)| alive(it)).map(|(id, it)| (*id, it.clone()));
        let next = Known { last: last.collect(), ..Known::default() };
        Self { control, factory, before, next, reached }
    }

    /// Returns what is known from this catalog on.
    pub(super) fn into_known(self) -> Known {
        self.next
    }

    /// Returns where requests for a model go: to each of its instances that answers, if there is one.
    pub(super) fn managed(&mut self, model: &Model) -> RouteTarget {
        self.next.phases.insert(model.id, model.phase.clone());
        let state = model.state().0;
        match (&model.apply, state) {
            (_, State::Running) if !self.reached => RouteTarget::Elsewhere,
            (_, State::Running) => self.serving(model).unwrap_or(RouteTarget::Down { state: State::Failed }),
            (Some(apply), _) if model.is_swapping() => {
                RouteTarget::Returning { until: apply.at.plus(self.control.config.engines.apply_wait_sec.0) }
            }
            _ => RouteTarget::Down { state },
        }
    }

    /// Returns the instances of a running model; `None` if none of them can be routed to.
    fn serving(&mut self, model: &Model) -> Option<RouteTarget> {
        let control = self.control;
        let key = key_of(&control.config.internal_key, model);
        let instances = model.phase.serving().filter_map(|Serving { instance, address }| {
            self.upstream(Engine {
                place: Place::Managed { instance: instance.clone(), address: address.clone() },
                served_name: &model.served_name,
                url: &address.to_string(),
                key: Some(key.expose_secret()),
                guard: control.listeners.as_ref(),
            })
        });
        let mut all: Vec<_> = instances.collect();
        if !all.is_empty() {
            self.next.last.insert(model.id, all.iter().map(Arc::downgrade).collect());
        }
        if all.len() > 1 { Some(RouteTarget::AnyOf(all.into())) } else { all.pop().map(RouteTarget::Up) }
    }

    /// Returns the context length that the engine of a model reported.
    pub(super) fn context(&mut self, model: &Model) -> Option<i64> {
        let instance = model.phase.instance()?;
        let context = *self.before.contexts.get(instance)?;
        self.next.contexts.insert(instance.clone(), context);
        Some(context)
    }

    /// Returns where requests for a registry entry go; `None` if none of its addresses can be routed to.
    pub(super) fn manual(&mut self, entry: &RegistryEntry) -> Option<RouteTarget> {
        let key = entry.api_key.as_ref().map(SecretString::expose_secret);
        let hash = key.map(|it| gantry_domain::key::hash(it.as_bytes()));
        let served_name = &entry.served_name;
        let urls = entry.urls.iter().take(MAX_ENGINE_URLS);
        let upstreams = urls.filter_map(|url| {
            let place = Place::Manual { served_name: served_name.clone(), url: url.clone(), key: hash };
            self.upstream(Engine { place, served_name, url, key, guard: None })
        });
        let all: Vec<_> = upstreams.collect();
        (!all.is_empty()).then(|| RouteTarget::AnyOf(all.into()))
    }

    /// Returns the upstream of an engine: the one of before, if the engine is the same.
    fn upstream(&mut self, engine: Engine<'_>) -> Option<Arc<Upstream>> {
        let upstream = match self.before.upstreams.get(&engine.place) {
            Some(upstream) => Arc::clone(upstream),
            None => self.factory.make(&engine)?,
        };
        self.next.upstreams.insert(engine.place, Arc::clone(&upstream));
        Some(upstream)
    }
}
