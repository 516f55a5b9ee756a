//! Which runtime runs the engines: containers of Docker, or processes of this machine.

use std::{ffi::OsString, path::Path, path::PathBuf, sync::Arc};

use anyhow::Context;
use gantry_control::machine::Machine;
use gantry_domain::model::{EngineKind, Wanted};
use gantry_runtime::{Gate, Owner, ProcessOptions, Program, Programs, Runtime, RuntimeError};
use gantry_settings::{CommandWords, ContainerRuntime, Settings};
use gantry_sim::Flavour;
use gantry_store::Store;
use tracing::{info, warn};

/// In the data directory: what ran the engines in the life before.
const MARKER: &str = "container-runtime";
pub(crate) const DOCKER: &str = "docker";
pub(crate) const PROCESS: &str = "process";

/// What was chosen.
pub(crate) struct EngineRuntime {
    /// `docker` or `process`.
    pub(crate) name: &'static str,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) programs: Option<Programs>,
    /// Indexes of the GPUs that it can give to engines.
    pub(crate) gpus: Vec<u32>,
}

/// Chooses by `CONTAINER_RUNTIME`, and says what it chose and why. Engines are changed only while `gate` is open; `home`
/// is the id of the data directory.
pub(crate) async fn choose(
    settings: &Settings,
    data_dir: &Path,
    store: &Store,
    owner: Owner,
    (home, gate): (&str, Arc<dyn Gate>),
    machine: &Arc<Machine>,
) -> anyhow::Result<EngineRuntime> {
    let docker = gantry_runtime::docker(settings.container_host.as_deref(), owner.clone());
    let docker = docker.context("CONTAINER_HOST can't be used")?.behind(Arc::clone(&gate));
    let docker = docker.with_user(settings.engine_container_user.as_ref().map(|it| it.0.clone()));
    let marker = data_dir.join(MARKER);
    let (name, why) = match settings.container_runtime {
        ContainerRuntime::Docker => (DOCKER, "CONTAINER_RUNTIME says so"),
        ContainerRuntime::Process => (PROCESS, "CONTAINER_RUNTIME says so"),
        // Whoever names an engine wants it, also while it is away.
        ContainerRuntime::Auto if settings.container_host.is_some() => {
            (DOCKER, "CONTAINER_HOST or DOCKER_HOST is set")
        }
        ContainerRuntime::Auto => match earlier(&marker, store).await? {
            Some(name) => (name, "models were started with it; set CONTAINER_RUNTIME to change that"),
            None => match docker.info().await {
                Ok(_) => (DOCKER, "it answers"),
                Err(error) => (PROCESS, passed_over(&error)),
            },
        },
    };
    std::fs::write(&marker, name).context("can't write into DATA_DIR")?;
    info!(
        runtime = name,
        "engines run as {}: {why}",
        if name == DOCKER { "containers" } else { "processes" }
    );
    // Without the driver's library there may still be devices.
    let gpus = machine.engine_gpus(name == PROCESS).await.unwrap_or_else(gantry_runtime::host_gpus);
    if name == DOCKER {
        return Ok(EngineRuntime { name, runtime: Arc::new(docker), programs: None, gpus });
    }
    let programs = programs(settings)?;
    let options = ProcessOptions {
        dir: data_dir.join("run"),
        home: home.to_owned(),
        // This very program, also after its file was replaced by that of a newer version.
        supervisor: PathBuf::from("/proc/self/exe"),
        programs: programs.clone(),
        has_gpus: !gpus.is_empty(),
        environment: environment(),
    };
    let runtime = gantry_runtime::process(options, owner).context("can't run engines as processes")?;
    let runtime = runtime.behind(gate);
    Ok(EngineRuntime { name, runtime: Arc::new(runtime), programs: Some(programs), gpus })
}

/// Tells why no container engine is used. One that is there, but not for us, most likely was meant to be.
fn passed_over(error: &RuntimeError) -> &'static str {
    match error {
        RuntimeError::PermissionDenied { .. } => {
            warn!(
                %error,
                "there is a container engine, and this user may not use it: `sudo usermod -aG docker USER` with the user of \
                 the gateway, and start it anew; CONTAINER_RUNTIME=process says that processes are meant"
            );
            "the container engine refuses this user"
        }
        RuntimeError::Unreachable { .. } => {
            info!(%error, "looked for a container engine");
            "no container engine answers"
        }
        _ => {
            warn!(%error, "there is a container engine, and it does not answer as it should");
            "the container engine gave no usable answer"
        }
    }
}

/// What the life before used, if models of it may still run: to look for them elsewhere would lose them.
async fn earlier(marker: &Path, store: &Store) -> anyhow::Result<Option<&'static str>> {
    let text = std::fs::read_to_string(marker).unwrap_or_default();
    let Some(name) = [DOCKER, PROCESS].into_iter().find(|it| *it == text.trim()) else { return Ok(None) };
    let models = store.read().await?.models(true).await?;
    let any = models.iter().any(|it| it.wanted == Wanted::Running || it.state().0.is_active());
    Ok(any.then_some(name))
}

fn programs(settings: &Settings) -> anyhow::Result<Programs> {
    let simulators = [simulator(EngineKind::Vllm)?, simulator(EngineKind::Llamacpp)?];
    let [vllm, llama] = wanted(settings, &search_path());
    let engines = [told(vllm, "PRIMARY_ENGINE_COMMAND"), told(llama, "SECONDARY_ENGINE_COMMAND")];
    Ok(Programs { engines, simulators })
}

/// An engine's program, as it was named or as it is usually called, and where that is.
pub(crate) struct Candidate {
    pub(crate) program: Program,
    /// The operator named it.
    pub(crate) named: bool,
    pub(crate) file: Option<PathBuf>,
}

/// `PATH`, where programs are looked for.
pub(crate) fn search_path() -> String {
    environment().into_iter().find(|(name, _)| name == "PATH").map(|it| it.1).unwrap_or_default()
}

/// The program of each engine, whether it is there or not; `path` is where it is looked for.
pub(crate) fn wanted(settings: &Settings, path: &str) -> [Candidate; 2] {
    let candidate = |engine, command: Option<&CommandWords>, usual: &[&str]| {
        let words: Vec<String> = match command {
            Some(CommandWords(words)) => words.clone(),
            None => usual.iter().map(|it| (*it).to_owned()).collect(),
        };
        let program = program(engine, words);
        let file = program.find(path);
        Candidate { program, named: command.is_some(), file }
    };
    [
        candidate(EngineKind::Vllm, settings.primary_engine_command.as_ref(), &["vllm", "serve"]),
        candidate(EngineKind::Llamacpp, settings.secondary_engine_command.as_ref(), &["llama-server"]),
    ]
}

/// The command of an engine. `gantry engine-sim …` names the simulator; nothing else is one.
fn program(engine: EngineKind, words: Vec<String>) -> Program {
    let simulator = words.get(1).is_some_and(|it| it == gantry_sim::VERB);
    let flavour = flavour(engine);
    Program {
        reference: words.join(" "),
        words,
        engine,
        simulator,
        version: simulator.then(|| flavour.default_version().to_owned()),
    }
}

/// Says in the log what runs the models of an engine. One that is not there is no fault: there may be no such models.
fn told(candidate: Candidate, setting: &str) -> Program {
    let Candidate { program, named, file } = candidate;
    let engine = program.engine.as_str();
    match &file {
        Some(_) if program.simulator => {
            warn!(engine = %engine, "{setting} names the simulator: what its models answer means nothing");
        }
        Some(file) => info!(engine = %engine, program = %file.display(), "the engine's program"),
        None if named => {
            warn!(engine = %engine, "there is no program `{}`: models can't start; correct {setting}", program.reference);
        }
        None => {
            warn!(engine = %engine, "the engine is not installed: its models can't start; install it or set {setting}");
        }
    }
    program
}

fn flavour(engine: EngineKind) -> Flavour {
    match engine {
        EngineKind::Vllm => Flavour::Vllm,
        EngineKind::Llamacpp => Flavour::Llamacpp,
    }
}

/// The variables that are text; an engine gets no others.
fn environment() -> Vec<(String, String)> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// `gantry engine-sim`, under the name of its image.
fn simulator(engine: EngineKind) -> anyhow::Result<Program> {
    let file = std::env::current_exe().context("this program does not know its own file")?;
    // Its file was replaced, but it can still be run.
    let file = if file.exists() { file } else { PathBuf::from("/proc/self/exe") };
    let flavour = flavour(engine);
    let words = [&file.to_string_lossy(), gantry_sim::VERB, "--flavour", flavour.name()];
    let program = program(engine, words.map(str::to_owned).into());
    Ok(Program { reference: flavour.default_tag(), ..program })
}
