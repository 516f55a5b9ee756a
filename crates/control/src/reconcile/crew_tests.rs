//! Tests the whole reconciler with a simulated container runtime.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_domain::{
    Clock, ModelId, Role,
    engine::{Confinement, Launch, key_fingerprint},
    model::{InstanceNumber, ModelDraft, Phase, State, Wanted, lifecycle::InstanceStatus},
};
use gantry_runtime::{Action, ContainerSpec, Fake, Owner, Runtime, RuntimeError};
use gantry_store::Store;
use serde_json::json;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::simulation::setup::{Engine, Engines, gateway};
use crate::Control;

struct Gateway {
    _dir: tempfile::TempDir,
    control: Arc<Control>,
    fake: Fake,
    engines: Engines,
    wake: mpsc::Sender<ModelId>,
    stop: CancellationToken,
    work: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Makes a gateway that looks only on request.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&format!("sqlite://{}/crew.db", dir.path().display())).await.unwrap();
        let fake = Fake::new(Owner { instance: "crew".to_owned() }, Clock::default());
        fake.add_image(super::simulation::IMAGE);
        let engines = Engines::default();
        let machine = Arc::new(crate::machine::Machine::new(None).unwrap());
        let made = gateway(store, Clock::default(), &fake, &engines, (machine, "boot".to_owned()));
        let rarely = Duration::from_hours(1);
        let mut control = Arc::into_inner(made).unwrap();
        let supervision = &mut control.config.supervision;
        (supervision.model_reconcile_sec, supervision.health_poll_sec) = (rarely, rarely);
        let (wake, _) = mpsc::channel(1);
        let stop = CancellationToken::new();
        Self { _dir: dir, control: Arc::new(control), fake, engines, wake, stop, work: None }
    }

    async fn create(&self, n: usize) -> ModelId {
        let body = json!({
            "served_name": format!("m{n}"), "engine_type": "llamacpp", "local_path": "simulated.gguf",
        });
        let draft = ModelDraft::create(body.as_object().unwrap(), Role::Owner).unwrap();
        let mut tx = self.control.store.write().await.unwrap();
        let model = tx.insert_model(&draft, self.control.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
        self.engines.lock().unwrap().insert(model.id, Engine::Ready);
        model.id
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own task")]
    fn run(&mut self) {
        let (wake, mut hints) = mpsc::channel(1024);
        let (control, stop) = (Arc::clone(&self.control), self.stop.clone());
        self.wake = wake;
        self.work = Some(tokio::spawn(async move { super::run(control, &mut hints, stop).await }));
    }

    /// Gives all of them the command at the same moment.
    async fn command(&self, ids: &[ModelId], wanted: Wanted) {
        let mut tx = self.control.store.write().await.unwrap();
        for id in ids {
            tx.command(*id, wanted, None, self.control.clock.now()).await.unwrap();
        }
        tx.commit().await.unwrap();
        for id in ids {
            self.wake.send(*id).await.unwrap();
        }
    }

    /// Waits until all of them are in this state.
    async fn all_reach(&self, state: State) {
        let begun = Instant::now();
        loop {
            let models = self.control.store.read().await.unwrap().models(true).await.unwrap();
            let left = models.iter().filter(|it| it.state().0 != state).count();
            if left == 0 {
                println!("{} models are {state} after {:?}", models.len(), begun.elapsed());
                return;
            }
            assert!(begun.elapsed() < Duration::from_mins(3), "{left} of {} are not {state}", models.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.work.unwrap().await.unwrap();
    }
}

#[tokio::test]
async fn three_hundred_models_start_and_stop_at_once() {
    const MODELS: usize = 300;
    let mut gateway = Gateway::new().await;
    let mut ids = Vec::new();
    for n in 0..MODELS {
        ids.push(gateway.create(n).await);
    }
    gateway.run();
    gateway.command(&ids, Wanted::Running).await;
    gateway.all_reach(State::Running).await;
    assert_eq!(gateway.fake.launches(), MODELS);
    assert_eq!(gateway.control.shared.catalog.load().routes.len(), MODELS);
    gateway.command(&ids, Wanted::Stopped).await;
    gateway.all_reach(State::Stopped).await;
    assert!(gateway.fake.containers().is_empty());
    gateway.end().await;
}

#[tokio::test]
async fn without_events_an_engine_that_died_is_noticed_all_the_same() {
    let mut gateway = Gateway::new().await;
    let id = gateway.create(0).await;
    let refused = RuntimeError::Refused { action: "ask for events", detail: "simulated".to_owned() };
    gateway.fake.fail_next(Action::Events, refused);
    gateway.run();
    gateway.command(&[id], Wanted::Running).await;
    gateway.all_reach(State::Running).await;
    gateway.fake.kill("secondary-model-1", 137);
    gateway.all_reach(State::Failed).await;
    gateway.end().await;
}

#[tokio::test]
async fn an_engine_of_an_older_version_is_adopted_and_an_instance_that_no_record_asks_for_is_stopped() {
    let mut gateway = Gateway::new().await;
    let id = gateway.create(0).await;
    // As the first versions gave it to all engines.
    let key = key_fingerprint(&gateway.control.config.internal_key);
    let launch = Launch {
        image: super::simulation::IMAGE.to_owned(),
        args: Vec::new(),
        entrypoint: None,
        env: Vec::new(),
        gpus: Vec::new(),
        shm_bytes: None,
        mounts_hub_cache: false,
        locks_memory: false,
        confinement: Confinement::default(),
        warnings: Vec::new(),
    };
    let spec = |name, number| ContainerSpec {
        name,
        model_id: id,
        number: InstanceNumber(number),
        generation: 1,
        launch: &launch,
        models_dir: "/nowhere".as_ref(),
        hub_cache_dir: "/nowhere".as_ref(),
        key_fingerprint: &key,
    };
    let instance = gateway.fake.launch(&spec("secondary-model-1", 0)).await.unwrap();
    gateway.fake.launch(&spec("secondary-model-1-1", 1)).await.unwrap();
    let mut tx = gateway.control.store.write().await.unwrap();
    let model = tx.command(id, Wanted::Running, None, gateway.control.clock.now()).await.unwrap().unwrap();
    let InstanceStatus::Running { address: Some(address) } = &gateway.fake.containers()["secondary-model-1"]
    else {
        panic!("it runs")
    };
    // As an older version stored it.
    let row = json!({
        "phase": "running", "generation": 1, "instance": instance, "port": address.port, "since": 0,
    });
    let phase: Phase = serde_json::from_value(row).unwrap();
    assert!(tx.record_phase(&model, &phase, "boot").await.unwrap());
    tx.commit().await.unwrap();
    gateway.run();
    let alone = async {
        while gateway.fake.containers().len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(gantry_testkit::PATIENCE, alone).await.expect("the other instance is stopped");
    gateway.all_reach(State::Running).await;
    let left = gateway.fake.instances();
    assert_eq!(
        left.iter().map(|(name, it)| (name.as_str(), &it.id)).collect::<Vec<_>>(),
        [("secondary-model-1", &instance)]
    );
    assert_eq!(gateway.fake.launches(), 2, "nothing was started for it");
    gateway.command(&[id], Wanted::Stopped).await;
    gateway.all_reach(State::Stopped).await;
    assert!(gateway.fake.containers().is_empty());
    gateway.end().await;
}
