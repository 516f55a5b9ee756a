//! Runs random histories of operators, engines, a container runtime and a gateway that is killed at any await, with the
//! real worker, store and publisher. Only the container runtime, the probes and the clock are simulated.
//!
//! A seed fixes the history, but not at which instruction a kill hits inside SQLite's own thread. `GANTRY_SIM_SEED=7`
//! runs one seed, `GANTRY_SIM_SEEDS=100000` runs more of them.

mod rules;
pub(super) mod setup;

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
    model::{
        Apply, Model, ModelDraft, ModelEvent, Phase, State, Wanted,
        lifecycle::{Again, InstanceStatus, Rules},
    },
};
use gantry_runtime::{Action, Fake, Owner, RuntimeError, Script};
use gantry_store::Store;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use super::{worker::Worker, *};
use rules::{COMMANDED, FOLLOWS, grammatical};
use setup::{Engine, Engines, gateway};

const SEEDS: u64 = 200;
const STEPS: usize = 60;
/// The timeline's text for a command.
const COMMAND: &str = "by an operator";
/// Most starts within an hour without a command.
const LIMIT: usize = 3;
pub(super) const IMAGE: &str = "localhost/gantry-engine-sim-llamacpp:b11434";

/// Drops the work after this many polls, as a kill would.
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
    /// Number of boots of the machine.
    boots: u32,
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
        let control = gateway(store, clock, &fake, &engines, (machine, "boot 0".to_owned()));
        Self {
            boots: 0,
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
            "restart_policy": if self.rng.random_bool(0.5) { "on_failure" } else { "never" },
            "restart_limit": LIMIT,
            "autostart": self.rng.random_bool(0.5),
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
            47..49 => self.tick().await,
            49 => self.reboot().await,
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
        let from = model.state().0;
        match what {
            0..7 => {
                let ends = from == State::Stopping && model.wanted == Wanted::Stopped;
                if from.is_active() && !ends {
                    return;
                }
                tx.command(id, Wanted::Running, None, now).await.unwrap();
            }
            7..11 => {
                tx.command(id, Wanted::Stopped, None, now).await.unwrap();
            }
            11..15 => {
                let swap = from == State::Running;
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
        if what < 15
            && let Some(after) = tx.model(id).await.unwrap()
        {
            let event = ModelEvent {
                at: now,
                from,
                to: after.state().0,
                reason: None,
                detail: Some(COMMAND.to_owned()),
            };
            tx.insert_event(id, &event).await.unwrap();
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

    /// Does what the reconciler does at each tick: one list for all models.
    async fn tick(&mut self) {
        let at = Instant::now();
        let listed = by_name(self.control.runtime.list().await);
        let records = self.control.store.read().await.unwrap().models_for_reconcile().await.unwrap().rows;
        let models = self.models.clone();
        for record in records.into_iter().filter(|it| models.contains(&it.model.id)) {
            let id = record.model.id;
            let found = listed.as_ref().map(|all| all.get(&record.model.instance_name()).cloned());
            let sighting = found.map(|found| Sighting { at, record, found });
            self.pass(id, sighting, usize::MAX).await;
        }
    }

    async fn pass(&mut self, id: ModelId, sighting: Option<Sighting>, polls: usize) {
        let before = self.model(id).await.map(|it| it.phase);
        let launches = self.fake.replaced_while_running().len();
        let worker = self.workers.entry(id).or_insert_with(|| {
            Worker::new(id, Arc::clone(&self.control), Arc::default(), CancellationToken::new())
        });
        let done = Mortal { work: Box::pin(worker.pass(sighting)), polls }.await;
        self.note(format!("pass of {id}: {}", if done.is_some() { "done" } else { "killed" }));
        // An engine that runs is stopped first, with its grace. A start may clear away one that did not end in that
        // time.
        let was_up = matches!(
            before,
            Some(
                Phase::Loading { .. } | Phase::Running { .. } | Phase::Stopping { .. } | Phase::Failed { .. }
            )
        );
        for (old, new) in self.fake.replaced_while_running().split_off(launches) {
            if was_up || old == new {
                self.fail(&format!("an engine of generation {new} was started while that of {old} ran"));
            }
        }
        match done {
            Some(result) => {
                result.unwrap_or_else(|error| self.fail(&format!("the store fails: {error}")));
                self.check(id).await;
            }
            None => self.restart().await,
        }
    }

    /// Restarts the gateway after a crash in which it lost all that it had in memory.
    async fn restart(&mut self) {
        self.workers.clear();
        let old = &self.control;
        let (store, clock, machine) = (old.store.clone(), old.clock.clone(), Arc::clone(&old.machine));
        let boot = format!("boot {}", self.boots);
        self.control = gateway(store, clock, &self.fake, &self.engines, (machine, boot));
        // A killed process leaves no transaction behind; here SQLite's own thread may still be at its last one.
        drop(self.control.store.write().await.unwrap());
        self.control.publisher.publish(&self.control).await.unwrap();
    }

    /// Restarts the machine: every engine ends, then the gateway starts.
    async fn reboot(&mut self) {
        self.note("the machine is restarted".to_owned());
        for (name, status) in self.fake.containers() {
            if matches!(status, InstanceStatus::Running { .. }) {
                self.fake.kill(&name, 137);
            }
        }
        self.boots += 1;
        self.restart().await;
    }

    /// Runs a pass of a worker without checking it.
    async fn tick_of(&mut self, id: ModelId) {
        if let Some(worker) = self.workers.get_mut(&id) {
            Box::pin(worker.pass(None)).await.unwrap();
        }
    }

    async fn model(&self, id: ModelId) -> Option<Model> {
        let found = self.control.store.read().await.unwrap().model_for_reconcile(id).await.unwrap();
        found.map(|it| it.model)
    }

    /// Checks what must hold after every pass that ended.
    async fn check(&mut self, id: ModelId) {
        let found = self.control.store.read().await.unwrap().model_for_reconcile(id).await.unwrap();
        let Some(ModelToReconcile { model, deleting, .. }) = found else {
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
        if matches!(route, Some(RouteTarget::Up(_))) != (state == State::Running) {
            self.fail(&format!("a model is {state}, its route is {route:?}"));
        }
        // A gateway that can't ask an engine waits until it can.
        let asked = self.engines.lock().unwrap()[&id] != Engine::CanNotBeAsked;
        if let Phase::Loading { until, .. } | Phase::Stopping { until, .. } = model.phase
            && (asked || state == State::Stopping)
            && self.control.clock.now() >= until
        {
            self.fail(&format!("{id} is {state} after its time"));
        }
        // What the runtime does not report while it is away, or in an answer that was lost, can't be known.
        if !self.leads_to_its_engine(&model) && self.control.runtime.info().await.is_ok() {
            self.fake.clear_faults();
            self.tick_of(id).await;
            if let Some(model) = self.model(id).await
                && !self.leads_to_its_engine(&model)
            {
                self.fail("after a look a route leads to what is not the model's engine");
            }
        }
        let events = self.control.store.read().await.unwrap().events(id, 20).await.unwrap();
        for event in &events {
            let commanded = event.detail.as_deref() == Some(COMMAND);
            let table = if commanded { COMMANDED } else { FOLLOWS };
            let again = commanded && event.from == event.to;
            if !(again || table.contains(&(event.from, event.to))) {
                self.fail(&format!("{} can't become {} ({commanded})", event.from, event.to));
            }
            let lost = event.reason.as_deref() == Some("container_not_found");
            if lost && !matches!(event.from, State::Loading | State::Running | State::Failed) {
                self.fail(&format!("{} became {} as its container is lost", event.from, event.to));
            }
        }
        let again = model.starts.as_ref().map_or(&[][..], |it| &it.again);
        let allowed = ["restart_policy", "autostart"].map(|it| model.config.get(it).cloned());
        if !again.is_empty() && allowed == [Some(json!("never")), Some(json!(false))] {
            self.fail(&format!("{id} was started again by nobody"));
        }
        if again.len() > LIMIT {
            self.fail(&format!("{id} was started again more often than it may be: {again:?}"));
        }
        if deleting {
            // A deleted model is no longer visible.
            return;
        }
        for pair in events.windows(2) {
            if pair[1].to != pair[0].from {
                self.fail(&format!(
                    "{} became {}, and then it was {}",
                    pair[1].from, pair[1].to, pair[0].from
                ));
            }
        }
    }

    /// Whether a route to an engine leads to the model's container of the generation that the record says, if that
    /// container listens.
    fn leads_to_its_engine(&self, model: &Model) -> bool {
        let catalog = self.control.shared.catalog.load();
        let Some(RouteTarget::Up(upstream)) = catalog.routes.get(&model.served_name).map(|it| &it.target)
        else {
            return true;
        };
        let instances = self.fake.instances();
        instances.get(&model.instance_name()).is_some_and(|it| {
            let InstanceStatus::Running { address: Some(address) } = &it.status else { return false };
            it.generation == model.phase.generation()
                && model.phase.instance() == Some(&it.id)
                && upstream.url() == address.to_string()
        })
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
                (Wanted::Running, State::Failed | State::Stopped) => !runs && self.stays_down(&model),
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

    /// Whether nothing is due to start it again.
    fn stays_down(&self, model: &Model) -> bool {
        let rules = Rules::of(model, &self.control.boot);
        !matches!(rules.after(&model.phase), Again::At(_))
    }

    fn routed(&self, model: &Model) -> bool {
        let Phase::Running { address, .. } = &model.phase else { return false };
        match self.control.shared.catalog.load().routes.get(&model.served_name).map(|it| &it.target) {
            Some(RouteTarget::Up(upstream)) => upstream.url() == address.to_string(),
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

#[expect(clippy::disallowed_methods, reason = "the person who runs the tests says how many seeds")]
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
