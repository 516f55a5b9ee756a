//! Makes the gateway of a simulation from the real parts and the simulated ones.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use gantry_dataplane::{Catalog, Shared, breaker};
use gantry_domain::{
    Clock, ModelId,
    engine::{EngineAddress, Host},
    model::{
        Model, PerEngine,
        lifecycle::{Health, InstanceStatus},
    },
};
use gantry_runtime::Fake;
use gantry_store::Store;
use tokio::{sync::Notify, task};

use super::IMAGE;
use crate::{
    Config, Control,
    probe::{Probed, Prober},
    publish::Publisher,
};

/// How the engine of a model behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reconcile) enum Engine {
    Loads,
    Ready,
    Hangs,
    RefusesTheKey,
    /// The gateway itself lacks a file descriptor for it.
    CanNotBeAsked,
}

pub(in crate::reconcile) type Engines = Arc<Mutex<BTreeMap<ModelId, Engine>>>;

struct Probes {
    engines: Engines,
    fake: Fake,
}

impl Prober for Probes {
    fn probe<'a>(&'a self, model: &'a Model, address: &'a EngineAddress) -> BoxFuture<'a, Probed> {
        async move {
            task::yield_now().await;
            let up = InstanceStatus::Running { address: Some(address.clone()) };
            let engine = self.engines.lock().unwrap().get(&model.id).copied();
            let health = if engine == Some(Engine::CanNotBeAsked) {
                Health::Unknown
            } else if self.fake.containers().get(&model.instance_name()) == Some(&up) {
                match engine {
                    Some(Engine::Ready) => Health::Ready,
                    Some(Engine::Hangs) => Health::Slow { n: 1 },
                    Some(Engine::RefusesTheKey) => Health::KeyRefused,
                    _ => Health::Wrong { n: 1, detail: "503".to_owned() },
                }
            } else {
                Health::Closed { detail: "connection refused".to_owned() }
            };
            Probed { max_model_len: Some(4096), ..health.into() }
        }
        .boxed()
    }
}

/// Makes a running gateway, with what it sees of the world.
pub(in crate::reconcile) fn gateway(
    store: Store,
    clock: Clock,
    fake: &Fake,
    engines: &Engines,
    (machine, boot): (Arc<crate::machine::Machine>, String),
) -> Arc<Control> {
    let breaker = breaker::Settings { failures: 5, cooldown: Duration::from_secs(30) };
    Arc::new(Control {
        config: config(),
        clock: clock.clone(),
        steady: clock.clone(),
        boot,
        listeners: None,
        prober: Arc::new(Probes { engines: Arc::clone(engines), fake: fake.clone() }),
        runtime: Arc::new(fake.clone()),
        shared: Arc::new(Shared::new(Catalog::default(), clock.clone())),
        publisher: Publisher::new(breaker),
        runtime_status: Arc::default(),
        supervision: Arc::new(crate::supervise::Supervision::alone()),
        changed_elsewhere: Notify::new(),
        drills: Arc::new(crate::deployment::drill::Drills::new(
            None,
            "simulation",
            gantry_domain::Timestamp(0),
        )),
        restores: tokio::sync::watch::Sender::default(),
        new_budgets: Notify::new(),
        hub: crate::hub::Hub::new(None, true),
        versions: crate::versions::Versions::new().0,
        machine,
        images: crate::preview::Images::default(),
        orphans_stopped: 0.into(),
        restarts: crate::restarts::Restarts::default(),
        jobs: crate::jobs::Jobs::new(store.clone(), clock, String::new()),
        samples: Arc::default(),
        upstreams: crate::upstreams::Upstreams::default(),
        phases: tokio::sync::broadcast::channel(16).0,
        store,
    })
}

fn config() -> Config {
    Config {
        engines: gantry_settings::Engines {
            offline_mode: true,
            offline_mode_auto_detect: false,
            image_pull_timeout: Duration::from_mins(1),
            // A container that ignores a stop really takes this time.
            stop_timeout_sec: Duration::from_millis(1),
            ..Default::default()
        },
        supervision: gantry_settings::Supervision::default(),
        limits: gantry_settings::Limits::default(),
        models_dir: gantry_domain::ModelsDir::new("/nowhere".as_ref()),
        models_dir_rules: gantry_domain::models_dir::ModelsDirRules {
            data_dir: "/nowhere".into(),
            configured: "/nowhere".into(),
            roots: Vec::new(),
            homes: gantry_domain::models_dir::Homes::default(),
        },
        hub_cache_dir: "/nowhere".into(),
        data_dir: "/nowhere".into(),
        images: gantry_domain::image::AllowedImages {
            defaults: PerEngine::of(|_| IMAGE.to_owned()),
            ..Default::default()
        },
        programs: None,
        internal_key: "key".into(),
        media_hosts: Vec::new(),
        drain: Duration::from_secs(30),
        host: Host { cpus: 4, gpus: Vec::new() },
        public_settings: serde_json::Value::Null,
        usage_retention_days: 90,
        audit_retention_days: 365,
    }
}
