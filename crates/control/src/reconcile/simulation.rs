//! Random histories of operators, engines, a container runtime and a gateway that is killed at any await, against the
//! real worker, store and publisher. Only the container runtime, the probes and the clock are imaginary.
//!
//! A seed fixes the history; at which instruction a kill hits inside SQLite's own thread it can't fix.
//! `GANTRY_SIM_SEED=7` runs one seed, `GANTRY_SIM_SEEDS=100000` more of them.

mod setup;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicI64, Ordering::SeqCst},
    task::{Context, Poll},
};

use gantry_dataplane::RouteTarget;
use gantry_domain::{
    Clock, Role, Timestamp,
    model::{Apply, ModelDraft, Phase, State, Wanted, lifecycle::InstanceStatus},
};
use gantry_runtime::{Action, Fake, Owner, RuntimeError, Script};
use gantry_store::Store;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use super::{worker::Worker, *};
use setup::{Engine, Engines, gateway};

const SEEDS: u64 = 1000;
const STEPS: usize = 60;
const IMAGE: &str = "engine:b11434";

/// Drops the work after so many polls, as a kill would.
struct Mortal<F> {
    work: Pin<Box<F>>,
    polls: usize,
}

impl<F: Future> Future for Mortal<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.work.as_mut().poll(cx).map(Some)
    }
}

struct Sim {
    seed: u64,
    rng: StdRng,
    control: Arc<Control>,
    fake: Fake,
    engines: Engines,
    now: Arc<AtomicI64>,
    models: Vec<ModelId>,
    workers: BTreeMap<ModelId, Worker>,
    history: Vec<String>,
}

impl Sim {
    fn new(seed: u64, store: Store) -> Self {
        let now = Arc::new(AtomicI64::new(1_000_000));
        let clock = {
            let now = Arc::clone(&now);
            Clock::new(move || Timestamp(now.load(SeqCst)))
        };
        let fake = Fake::new(Owner { instance: seed.to_string() }, clock.clone());
        fake.add_image(IMAGE);
        let engines = Engines::default();
        let machine = Arc::new(crate::machine::Machine::new(None).unwrap());
        let control = gateway(store, clock, &fake, &engines, machine);
        Self {
            seed,
            rng: StdRng::seed_from_u64(seed),
            control,
            fake,
            engines,
            now,
            models: Vec::new(),
            workers: BTreeMap::new(),
            history: Vec::new(),
        }
    }

    async fn run(mut self) {
        for n in 0..2 {
            self.create(n).await;
        }
        for _ in 0..STEPS {
            self.step().await;
        }
        if self.rng.random_bool(0.5) {
            self.nothing_is_stuck_without_the_runtime().await;
        }
        self.settles().await;
        self.stops().await;
    }

    fn fail(&self, what: &str) -> ! {
        panic!("seed {}: {what}\n{}\n{:#?}", self.seed, self.history.join("\n"), self.fake.containers());
    }

    fn note(&mut self, what: String) {
        self.history.push(what);
    }

    async fn create(&mut self, n: usize) {
        let body = json!({
            "served_name": format!("m{}-{n}", self.seed), "engine_type": "llamacpp", "local_path": "simulated.gguf",
        });
        let draft = ModelDraft::create(body.as_object().unwrap(), Role::Owner).unwrap();
        let mut tx = self.control.store.write().await.unwrap();
        let model = tx.insert_model(&draft, self.control.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
        self.models.push(model.id);
        self.engines.lock().unwrap().insert(model.id, Engine::Loads);
    }

    async fn step(&mut self) {
        let id = *self.models.choose(&mut self.rng).unwrap();
        match self.rng.random_range(0..100) {
            0..14 => self.operator(id).await,
            14..36 => self.surroundings(id),
            36..44 => {
                let ms = self.rng.random_range(1..400_000);
                self.note(format!("{ms} ms pass"));
                self.now.fetch_add(ms, SeqCst);
            }
            44..47 => {
                self.note("the gateway is restarted".to_owned());
                self.restart().await;
            }
            47..50 => self.tick().await,
            _ => {
                let polls =
                    if self.rng.random_bool(0.25) { self.rng.random_range(1..80) } else { usize::MAX };
                self.pass(id, None, polls).await;
            }
        }
    }

    async fn operator(&mut self, id: ModelId) {
        let mut tx = self.control.store.write().await.unwrap();
        let Some(model) = tx.model(id).await.unwrap() else { return };
        let now = self.control.clock.now();
        let what = self.rng.random_range(0..20);
        match what {
            0..7 => {
                if model.state().0.is_active() {
                    return;
                }
                tx.command(id, Wanted::Running, None, now).await.unwrap();
            }
            7..11 => {
                tx.command(id, Wanted::Stopped, None, now).await.unwrap();
            }
            11..15 => {
                let swap = model.state().0 == State::Running;
                let apply = Apply { at: now, swap, rollback: self.rng.random_bool(0.5), rolled_back: None };
                tx.command(id, Wanted::Running, Some(&apply), now).await.unwrap();
            }
            15..19 => {
                let n = self.rng.random_range(1..100) * 512;
                let change = json!({ "context_size": n });
                let draft = ModelDraft::change(&model, change.as_object().unwrap(), Role::Owner).unwrap();
                tx.update_model(id, &draft, now).await.unwrap();
            }
            _ => {
                tx.mark_deleting(id, now).await.unwrap();
            }
        }
        tx.commit().await.unwrap();
        self.note(format!("operator {what} on {id}"));
    }

    fn surroundings(&mut self, id: ModelId) {
        let name = format!("secondary-model-{id}");
        let error = RuntimeError::Timeout { action: "simulated" };
        let actions =
            [Action::Find, Action::List, Action::Launch, Action::Stop, Action::Remove, Action::Image];
        let action = *actions.choose(&mut self.rng).unwrap();
        let what = self.rng.random_range(0..25);
        let engine = |it| self.engines.lock().unwrap().insert(id, it);
        match what {
            0..8 => drop(engine(Engine::Ready)),
            8 => drop(engine(Engine::Hangs)),
            9 => drop(engine(Engine::RefusesTheKey)),
            10 => drop(engine(Engine::Loads)),
            11..13 => self.fake.kill(&name, 139),
            13 => self.fake.vanish(&name),
            14 => self.fake.restart(&name),
            15 => self.fake.set_down(Some(error)),
            16..19 => self.fake.set_down(None),
            19 => self.fake.fail_next(action, error),
            20 => self.fake.lose_next(action, error),
            21 => self.fake.script(&name, Script { exits_at_once: Some(1), ..Script::default() }),
            22 => drop(engine(Engine::CanNotBeAsked)),
            23 => self.fake.script(&name, Script { ignores_stop: true, ..Script::default() }),
            _ => self.fake.script(&name, Script::default()),
        }
        self.note(format!("surroundings {what} {action:?} on {id}"));
    }

    /// What the reconciler does at each tick: one list for all.
    async fn tick(&mut self) {
        let at = Instant::now();
        let listed = by_name(self.control.runtime.list().await);
        let records = self.control.store.read().await.unwrap().models_for_reconcile().await.unwrap();
        let models = self.models.clone();
        for (model, deleting) in records.into_iter().filter(|(it, _)| models.contains(&it.id)) {
            let id = model.id;
            let found = listed.as_ref().map(|all| all.get(&model.container_name()).cloned());
            let sighting = found.map(|found| Sighting { at, model, deleting, found });
            self.pass(id, sighting, usize::MAX).await;
        }
    }

    async fn pass(&mut self, id: ModelId, sighting: Option<Sighting>, polls: usize) {
        let worker = self.workers.entry(id).or_insert_with(|| {
            Worker::new(id, Arc::clone(&self.control), Arc::default(), CancellationToken::new())
        });
        let done = Mortal { work: Box::pin(worker.pass(sighting)), polls }.await;
        self.note(format!("pass of {id}: {}", if done.is_some() { "done" } else { "killed" }));
        if self.fake.replaced_a_running_twin() {
            self.fail("a container that ran was replaced by one of the same generation");
        }
        match done {
            Some(result) => {
                result.unwrap_or_else(|error| self.fail(&format!("the store fails: {error}")));
                self.check(id).await;
            }
            None => self.restart().await,
        }
    }

    /// The whole gateway died, with all that it had in memory, and comes up again.
    async fn restart(&mut self) {
        self.workers.clear();
        let old = &self.control;
        let (store, clock, machine) = (old.store.clone(), old.clock.clone(), Arc::clone(&old.machine));
        self.control = gateway(store, clock, &self.fake, &self.engines, machine);
        // A killed process leaves no transaction behind; here SQLite's own thread may still be at its last one.
        drop(self.control.store.write().await.unwrap());
        self.control.publisher.publish(&self.control).await.unwrap();
    }

    /// A look that is not looked at itself.
    async fn tick_of(&mut self, id: ModelId) {
        if let Some(worker) = self.workers.get_mut(&id) {
            Box::pin(worker.pass(None)).await.unwrap();
        }
    }

    async fn model(&self, id: ModelId) -> Option<Model> {
        let found = self.control.store.read().await.unwrap().model_for_reconcile(id).await.unwrap();
        found.map(|(model, _)| model)
    }

    /// What must hold after every pass that ended.
    async fn check(&mut self, id: ModelId) {
        let Some(model) = self.model(id).await else {
            if self.fake.containers().contains_key(&format!("secondary-model-{id}")) {
                self.fail("a record was deleted before its container");
            }
            return;
        };
        let (state, reason) = model.state();
        if !reason.as_deref().is_none_or(|it| grammatical(state, it)) {
            self.fail(&format!("state_reason {reason:?} of {state}"));
        }
        let catalog = self.control.shared.catalog.load_full();
        let route = catalog.routes.get(&model.served_name).map(|it| &it.target);
        if let (Some(RouteTarget::Up(_)), false) = (route, state == State::Running) {
            self.fail(&format!("a route leads to a model that is {state}"));
        }
        let container = self.fake.containers().remove(&model.container_name());
        // What the runtime does not tell while it is away, or in an answer that was lost, can't be known.
        if state == State::Running
            && self.control.runtime.info().await.is_ok()
            && let Some(InstanceStatus::Exited { .. }) = container
        {
            self.fake.clear_faults();
            self.tick_of(id).await;
            if self.model(id).await.is_some_and(|it| it.state().0 == State::Running) {
                self.fail("a model whose container has ended is running after a look");
            }
        }
        let events = self.control.store.read().await.unwrap().events(id, 5).await.unwrap();
        for event in events {
            if !possible(event.from, event.to) {
                self.fail(&format!("{} can't become {}", event.from, event.to));
            }
        }
    }

    async fn rounds(&mut self, n: usize) {
        for _ in 0..n {
            for id in self.models.clone() {
                self.pass(id, None, usize::MAX).await;
            }
            self.now.fetch_add(60_000, SeqCst);
        }
    }

    async fn nothing_is_stuck_without_the_runtime(&mut self) {
        self.note("the runtime goes away for good".to_owned());
        self.fake.set_down(Some(RuntimeError::Timeout { action: "simulated" }));
        self.rounds(15).await;
        for id in self.models.clone() {
            let Some(model) = self.model(id).await else { continue };
            let state = model.state().0;
            if matches!(state, State::Starting | State::Loading | State::Stopping) {
                self.fail(&format!("{id} stays {state}"));
            }
        }
    }

    async fn settles(&mut self) {
        self.note("everything works again".to_owned());
        self.fake.set_down(None);
        self.fake.clear_faults();
        for id in self.models.clone() {
            self.fake.script(&format!("secondary-model-{id}"), Script::default());
            self.engines.lock().unwrap().insert(id, Engine::Ready);
        }
        self.rounds(4).await;
        let all = self.fake.containers();
        for id in self.models.clone() {
            let container = all.get(&format!("secondary-model-{id}"));
            let runs = matches!(container, Some(InstanceStatus::Running { .. }));
            let Some(model) = self.model(id).await else {
                if container.is_some() {
                    self.fail("a container without a record");
                }
                continue;
            };
            let state = model.state().0;
            let fine = match (model.wanted, state) {
                (Wanted::Running, State::Running) => runs && self.routed(&model),
                (Wanted::Running, State::Failed | State::Stopped) => !runs,
                (Wanted::Stopped, State::Stopped) => container.is_none(),
                _ => false,
            };
            if !fine || model.phase.generation() != model.generation {
                self.fail(&format!(
                    "{id} is wanted {:?}, ends as {:?} with {container:?}",
                    model.wanted, model.phase
                ));
            }
        }
    }

    fn routed(&self, model: &Model) -> bool {
        let Phase::Running { port, .. } = model.phase else { return false };
        match self.control.shared.catalog.load().routes.get(&model.served_name).map(|it| &it.target) {
            Some(RouteTarget::Up(upstream)) => upstream.authority() == format!("127.0.0.1:{port}"),
            _ => false,
        }
    }

    async fn stops(&mut self) {
        for id in self.models.clone() {
            let mut tx = self.control.store.write().await.unwrap();
            tx.mark_deleting(id, self.control.clock.now()).await.unwrap();
            tx.commit().await.unwrap();
        }
        self.rounds(2).await;
        if !self.fake.containers().is_empty() {
            self.fail("containers are left after everything was deleted");
        }
    }
}

/// The specification's forms of `state_reason`.
fn grammatical(state: State, reason: &str) -> bool {
    let detailed = ["container_exited: ", "start_failed: ", "engine_unhealthy: ", "stop_failed: "]
        .iter()
        .any(|it| reason.strip_prefix(it).is_some_and(|detail| !detail.is_empty() && !detail.contains('\n')));
    let timeout = reason.strip_prefix("startup_timeout_after_").and_then(|it| it.strip_suffix('s'));
    match state {
        State::Failed => detailed || timeout.is_some_and(|it| it.parse::<u64>().is_ok()),
        State::Stopped => reason == "container_not_found",
        _ => false,
    }
}

/// What may follow on what. A model never gets to `running` but through `loading`.
fn possible(from: State, to: State) -> bool {
    use State::{Failed, Loading, Running, Starting, Stopped, Stopping};
    match to {
        Running => matches!(from, Loading | Running),
        Loading => matches!(from, Starting | Failed | Stopping | Stopped | Running),
        Starting | Stopping | Stopped | Failed => true,
    }
}

#[expect(clippy::disallowed_methods, reason = "how many seeds is for whoever runs the tests to say")]
async fn simulate(part: u64) {
    let seeds: Vec<u64> = match std::env::var("GANTRY_SIM_SEED").map(|it| it.parse().unwrap()) {
        Ok(seed) if part == 0 => vec![seed],
        Ok(_) => return,
        Err(_) => {
            let all = std::env::var("GANTRY_SIM_SEEDS").map_or(SEEDS, |it| it.parse().unwrap());
            (part..all).step_by(4).collect()
        }
    };
    let (_dir, store) = store().await;
    for seed in seeds {
        Sim::new(seed, store.clone()).run().await;
    }
}

async fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&format!("sqlite://{}/sim.db", dir.path().display())).await.unwrap();
    (dir, store)
}

#[tokio::test]
async fn an_engine_that_the_gateway_can_not_ask_goes_on() {
    let (_dir, store) = store().await;
    let mut sim = Sim::new(0, store);
    sim.create(0).await;
    let id = sim.models[0];
    let mut tx = sim.control.store.write().await.unwrap();
    tx.command(id, Wanted::Running, None, sim.control.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    sim.engines.lock().unwrap().insert(id, Engine::Ready);
    sim.rounds(2).await;
    assert_eq!(sim.model(id).await.unwrap().state(), (State::Running, None));
    let before = sim.fake.containers();
    sim.engines.lock().unwrap().insert(id, Engine::CanNotBeAsked);
    sim.rounds(10).await;
    let model = sim.model(id).await.unwrap();
    assert_eq!((model.state(), sim.fake.containers()), ((State::Running, None), before));
    assert!(sim.routed(&model));
    assert!(sim.control.route_health(&model.served_name).unwrap().is_ok());
}

#[tokio::test]
async fn any_history_with_kills_settles_part_1() {
    simulate(0).await;
}

#[tokio::test]
async fn any_history_with_kills_settles_part_2() {
    simulate(1).await;
}

#[tokio::test]
async fn any_history_with_kills_settles_part_3() {
    simulate(2).await;
}

#[tokio::test]
async fn any_history_with_kills_settles_part_4() {
    simulate(3).await;
}
