//! A machine under test: the fake one, this one with processes, or a real Docker engine, behind the same few handles.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicI64, atomic::Ordering},
    time::{Duration, Instant},
};

use gantry_domain::{
    Clock, ModelId,
    engine::Launch,
    model::{
        InstanceNumber,
        lifecycle::{InstanceId, InstanceStatus},
    },
    net::SubnetRange,
};
use gantry_runtime::{ContainerSpec, Fake, Found, Owner, Runtime, RuntimeResult, Script, docker};
use secrecy::SecretString;

use crate::{engine::Engine, processes::Processes};

/// Longest wait for something that takes milliseconds on an idle machine, as in `gantry_testkit`.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Line that a stubborn process prints once SIGTERM no longer ends it.
const STUBBORN: &str = "no signal ends this";

/// What the process in a container does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behaviour {
    /// Runs until asked to end; ends with 0.
    Serves,
    /// Runs and ignores SIGTERM, from the line that it prints on.
    Stubborn,
    Exits(i64),
    /// Prints these lines, and serves. From its first line on, it ends with 0 when asked to.
    Prints(&'static [&'static str]),
    /// Runs this script. Not for the fake runtime.
    Shell(&'static str),
}

impl Behaviour {
    fn script(self) -> String {
        const FOREVER: &str = "while :; do sleep 0.05; done";
        match self {
            Self::Serves => format!("trap 'exit 0' TERM; {FOREVER}"),
            Self::Stubborn => format!("trap '' TERM; echo '{STUBBORN}'; {FOREVER}"),
            Self::Exits(code) => format!("exit {code}"),
            Self::Prints(lines) => {
                let lines: Vec<String> = lines.iter().map(|it| format!("echo '{it}'; ")).collect();
                format!("trap 'exit 0' TERM; {}{FOREVER}", lines.concat())
            }
            Self::Shell(script) => script.to_owned(),
        }
    }

    fn scripted(self) -> Script {
        match self {
            Self::Serves | Self::Shell(_) => Script::default(),
            Self::Stubborn => {
                Script { ignores_stop: true, prints: vec![STUBBORN.to_owned()], ..Script::default() }
            }
            Self::Exits(code) => Script { exits_at_once: Some(code), ..Script::default() },
            Self::Prints(lines) => {
                Script { prints: lines.iter().map(|it| (*it).to_owned()).collect(), ..Script::default() }
            }
        }
    }
}

enum Kind {
    Fake(Fake),
    Process(Processes),
    Docker(Engine),
}

pub(crate) struct Machine {
    kind: Kind,
    pub(crate) owner: Owner,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) image: String,
    pub(crate) models: tempfile::TempDir,
    pub(crate) hub: tempfile::TempDir,
    names: AtomicI64,
}

impl Machine {
    pub(crate) fn fake() -> Self {
        let owner = new_owner();
        let fake = Fake::new(owner.clone(), Clock::default());
        fake.add_image("shell:1");
        Self::new(Kind::Fake(fake.clone()), owner, Arc::new(fake), "shell:1".to_owned())
    }

    /// Returns a machine with a Docker engine; `None`, with a note, if no engine answers.
    pub(crate) async fn docker() -> Option<Self> {
        let engine = Engine::connect().await?;
        let owner = new_owner();
        let runtime = docker(Some(&engine.host), owner.clone()).unwrap().with_networks_of(networks());
        let image = engine.image.clone();
        Some(Self::new(Kind::Docker(engine), owner, Arc::new(runtime), image))
    }

    /// Returns this machine with engines as processes.
    pub(crate) fn process() -> Self {
        let owner = new_owner();
        let processes = Processes::new();
        let runtime = Arc::new(processes.seen_by(owner.clone()));
        Self::new(Kind::Process(processes), owner, runtime, "shell:1".to_owned())
    }

    fn new(kind: Kind, owner: Owner, runtime: Arc<dyn Runtime>, image: String) -> Self {
        let dir = || tempfile::tempdir().unwrap();
        Self { kind, owner, runtime, image, models: dir(), hub: dir(), names: AtomicI64::new(1) }
    }

    /// The Docker engine behind it.
    pub(crate) fn engine(&self) -> &Engine {
        match &self.kind {
            Kind::Docker(engine) => engine,
            Kind::Fake(_) | Kind::Process(_) => panic!("a case for Docker only"),
        }
    }

    /// The processes behind it.
    pub(crate) fn processes(&self) -> &Processes {
        match &self.kind {
            Kind::Process(processes) => processes,
            Kind::Fake(_) | Kind::Docker(_) => panic!("a case for processes only"),
        }
    }

    /// Returns a container name that nothing else uses, with its model.
    pub(crate) fn name(&self) -> Named {
        let model = ModelId(self.names.fetch_add(1, Ordering::Relaxed));
        let name = format!("gantry-test-{}-{model}", self.owner.instance);
        Named { name, model, number: InstanceNumber::FIRST }
    }

    pub(crate) fn seen_by(&self, owner: Owner) -> Arc<dyn Runtime> {
        match &self.kind {
            Kind::Fake(fake) => Arc::new(fake.seen_by(owner)),
            Kind::Process(processes) => Arc::new(processes.seen_by(owner)),
            Kind::Docker(engine) => {
                Arc::new(docker(Some(&engine.host), owner).unwrap().with_networks_of(networks()))
            }
        }
    }

    pub(crate) fn launch_of(&self, named: &Named, behaviour: Behaviour) -> Launch {
        if let Kind::Fake(fake) = &self.kind {
            fake.script(&named.name, behaviour.scripted());
        }
        Launch {
            image: self.image.clone(),
            entrypoint: Some(vec!["/bin/sh".to_owned()]),
            args: vec!["-c".to_owned(), behaviour.script()],
            env: vec![("VLLM_API_KEY".to_owned(), SecretString::from("s3cret-key-of-the-engine"))],
            gpus: Vec::new(),
            shm_bytes: None,
            mounts_hub_cache: false,
            locks_memory: true,
            confinement: gantry_domain::engine::Confinement::default(),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn spec<'a>(
        &'a self,
        named: &'a Named,
        generation: i64,
        launch: &'a Launch,
    ) -> ContainerSpec<'a> {
        ContainerSpec {
            name: &named.name,
            model_id: named.model,
            number: named.number,
            generation,
            launch,
            models_dir: self.models.path(),
            hub_cache_dir: self.hub.path(),
            key_fingerprint: "0011223344556677",
        }
    }

    pub(crate) async fn start(&self, named: &Named, behaviour: Behaviour) -> RuntimeResult<InstanceId> {
        self.start_generation(named, 1, behaviour).await
    }

    pub(crate) async fn start_generation(
        &self,
        named: &Named,
        generation: i64,
        behaviour: Behaviour,
    ) -> RuntimeResult<InstanceId> {
        let launch = self.launch_of(named, behaviour);
        self.runtime.launch(&self.spec(named, generation, &launch)).await
    }

    /// Returns the container, which must exist.
    pub(crate) async fn found(&self, named: &Named) -> Found {
        self.runtime.find(&named.name).await.unwrap().expect("our container")
    }

    /// Waits until the container has ended, and returns how.
    pub(crate) async fn ended(&self, named: &Named) -> (i64, bool) {
        poll(async || match self.found(named).await.instance.status {
            InstanceStatus::Exited { code, out_of_memory } => Some((code, out_of_memory)),
            _ => None,
        })
        .await
    }

    /// Takes the name with a container that no gateway made.
    pub(crate) async fn occupy(&self, named: &Named) {
        match &self.kind {
            Kind::Fake(fake) => fake.occupy(&named.name),
            Kind::Process(processes) => processes.occupy(&named.name),
            Kind::Docker(engine) => engine.occupy(&named.name).await,
        }
    }

    /// Ends the process as an operator with `kill -9` would.
    pub(crate) async fn kill(&self, named: &Named) {
        match &self.kind {
            Kind::Fake(fake) => fake.kill(&named.name, 137),
            Kind::Process(processes) => processes.kill(&named.name),
            Kind::Docker(engine) => engine.kill(&named.name).await,
        }
    }

    /// Sets for the fake runtime what the script prints as a probe; a real engine runs it.
    pub(crate) fn prints(&self, script: &str, text: Option<&str>) {
        if let Kind::Fake(fake) = &self.kind {
            fake.set_probe(&self.image, script, text);
        }
    }

    /// Waits until no container of a probe is left.
    pub(crate) async fn no_probes(&self) {
        poll(async || self.probes().await.is_empty().then_some(())).await;
    }

    /// Returns the ids of the containers of probes. Only Docker has such.
    pub(crate) async fn probes(&self) -> Vec<String> {
        let Kind::Docker(engine) = &self.kind else { return Vec::new() };
        engine.labelled(&format!("gantry.instance={}", self.owner.instance)).await
    }

    /// Returns the container of a probe that runs; `None` if there is none.
    async fn running_probe(&self) -> Option<String> {
        for id in self.probes().await {
            let state = self.engine().inspect(&id).await.and_then(|it| it.state);
            if state.and_then(|it| it.running) == Some(true) {
                return Some(id);
            }
        }
        None
    }

    /// Waits until the container of a probe runs, and returns its id; `None` where probes have none.
    pub(crate) async fn probe_runs(&self) -> Option<String> {
        let Kind::Docker(_) = &self.kind else { return None };
        Some(poll(async || self.running_probe().await).await)
    }

    /// Waits until the container of no probe runs.
    pub(crate) async fn no_probe_runs(&self) {
        poll(async || self.running_probe().await.is_none().then_some(())).await;
    }

    pub(crate) fn is_fake(&self) -> bool {
        matches!(self.kind, Kind::Fake(_))
    }

    /// Takes an image away.
    pub(crate) async fn remove_image(&self, reference: &str) {
        match &self.kind {
            Kind::Fake(fake) => fake.remove_image(reference),
            Kind::Process(_) => panic!("there are no images"),
            Kind::Docker(engine) => engine.remove_image(reference).await,
        }
    }

    /// Puts an image on the machine that calls itself a simulator of version 1.2.3.
    pub(crate) async fn add_simulator(&self) -> String {
        match &self.kind {
            Kind::Fake(fake) => {
                let info = gantry_runtime::ImageInfo {
                    id: "sha256:00".to_owned(),
                    config: None,
                    layers: vec!["sha256:01".to_owned()],
                    architecture: "amd64".to_owned(),
                    size_bytes: 10,
                    created: Some("2026-11-21T00:00:00Z".to_owned()),
                    version_label: Some("1.2.3".to_owned()),
                    simulator: true,
                };
                fake.set_image("simulator:1", info);
                "simulator:1".to_owned()
            }
            Kind::Process(_) => Processes::SIMULATOR.to_owned(),
            Kind::Docker(engine) => engine.add_simulator().await,
        }
    }
}

/// Where gateways take the addresses of their networks from unless they are told otherwise.
fn networks() -> SubnetRange {
    SubnetRange::parse("10.189.0.0/16").unwrap()
}

pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) model: ModelId,
    pub(crate) number: InstanceNumber,
}

impl Named {
    /// Returns another instance of the same model.
    pub(crate) fn beside(&self, number: u32) -> Self {
        let name = format!("{}-{number}", self.name);
        Self { name, model: self.model, number: InstanceNumber(number) }
    }
}

pub(crate) fn new_owner() -> Owner {
    Owner { instance: uuid::Uuid::now_v7().to_string() }
}

pub(crate) async fn poll<T>(mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(Instant::now() < deadline, "condition not met within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the path of a directory that does not exist.
pub(crate) fn nowhere() -> PathBuf {
    std::env::temp_dir().join(uuid::Uuid::now_v7().to_string())
}
