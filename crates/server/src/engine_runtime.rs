//! Which runtime runs the engines: containers of Docker, or processes of this machine.

use std::{ffi::OsString, path::Path, path::PathBuf, sync::Arc};

use anyhow::Context;
use gantry_control::machine::Machine;
use gantry_domain::{
    model::{EngineKind, PerEngine, Wanted},
    runtime::Traits,
};
use gantry_runtime::{
    Docker, Gate, Owner, Process, ProcessOptions, Program, Programs, Runtime, RuntimeError,
};
use gantry_settings::{CommandWords, ContainerRuntime, Settings};
use gantry_sim::Flavour;
use gantry_store::Store;
use tracing::{info, warn};

use crate::storage::Storage;

/// File in the data directory that names the runtime that the previous gateway process used.
const MARKER: &str = "container-runtime";

/// The settings that name the engines' programs.
pub(crate) const COMMANDS: PerEngine<&str> =
    PerEngine { vllm: "PRIMARY_ENGINE_COMMAND", llamacpp: "SECONDARY_ENGINE_COMMAND" };

/// The runtime that was chosen.
pub(crate) struct EngineRuntime {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) programs: Option<Programs>,
    /// Indexes of the GPUs that the runtime can give to engines.
    pub(crate) gpus: Vec<u32>,
}

/// Chooses the runtime by `CONTAINER_RUNTIME`, and logs the choice and the reason. The runtime changes engines only
/// while `gate` is open.
pub(crate) async fn choose(
    settings: &Settings,
    storage: &Storage,
    gate: Arc<dyn Gate>,
    machine: &Arc<Machine>,
) -> anyhow::Result<EngineRuntime> {
    let Storage { data_dir, store, .. } = storage;
    let owner = Owner { instance: storage.instance.clone() };
    let docker = gantry_runtime::docker(settings.engines.container_host.as_deref(), owner.clone());
    let docker = docker.context("CONTAINER_HOST can't be used")?.behind(Arc::clone(&gate));
    let docker = docker.with_user(settings.engines.engine_container_user.as_ref().map(|it| it.0.clone()));
    let docker = docker.with_networks_of(settings.engines.engine_networks);
    let marker = data_dir.join(MARKER);
    let (traits, why) = match settings.engines.container_runtime {
        ContainerRuntime::Docker => (Docker::TRAITS, "CONTAINER_RUNTIME says so"),
        ContainerRuntime::Process => (Process::TRAITS, "CONTAINER_RUNTIME says so"),
        // An operator who sets the container host wants Docker, even while it does not answer.
        ContainerRuntime::Auto if settings.engines.container_host.is_some() => {
            (Docker::TRAITS, "CONTAINER_HOST or DOCKER_HOST is set")
        }
        ContainerRuntime::Auto => match earlier(&marker, store).await? {
            Some(traits) => (traits, "models were started with it; set CONTAINER_RUNTIME to change that"),
            None => match docker.info().await {
                Ok(_) => (Docker::TRAITS, "it answers"),
                Err(error) => (Process::TRAITS, passed_over(&error)),
            },
        },
    };
    std::fs::write(&marker, traits.name).context("can't write into DATA_DIR")?;
    info!(
        runtime = traits.name,
        "engines run as {}: {why}",
        if traits.runs_images { "containers" } else { "processes" }
    );
    // There may be GPU devices even without the driver's library.
    let gpus = machine.engine_gpus(traits.shares_host_gpus).await.unwrap_or_else(gantry_runtime::host_gpus);
    if traits == Docker::TRAITS {
        return Ok(EngineRuntime { runtime: Arc::new(docker), programs: None, gpus });
    }
    let programs = programs(settings)?;
    let options = ProcessOptions {
        dir: data_dir.join("run"),
        home: storage.home.clone(),
        // The running program itself, even after a newer version replaced its file.
        supervisor: PathBuf::from("/proc/self/exe"),
        programs: programs.clone(),
        has_gpus: !gpus.is_empty(),
        environment: environment(),
    };
    let runtime = gantry_runtime::process(options, owner).context("can't run engines as processes")?;
    let runtime = runtime.behind(gate);
    Ok(EngineRuntime { runtime: Arc::new(runtime), programs: Some(programs), gpus })
}

/// Returns why no container engine is used. Logs a warning if there is one that can't be used, because the operator
/// most likely meant to use it.
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

/// Returns the runtime of the previous gateway process, if models that it started may still run. Another runtime would
/// not find them.
async fn earlier(marker: &Path, store: &Store) -> anyhow::Result<Option<Traits>> {
    let text = std::fs::read_to_string(marker).unwrap_or_default();
    let known = [Docker::TRAITS, Process::TRAITS].into_iter().find(|it| it.name == text.trim());
    let Some(traits) = known else { return Ok(None) };
    let models = store.read().await?.models(true).await?;
    let any = models.iter().any(|it| it.wanted == Wanted::Running || it.state().0.is_active());
    Ok(any.then_some(traits))
}

fn programs(settings: &Settings) -> anyhow::Result<Programs> {
    let simulators =
        PerEngine { vllm: simulator(EngineKind::Vllm)?, llamacpp: simulator(EngineKind::Llamacpp)? };
    let engines = wanted(settings, &search_path()).map(|engine, it| told(it, COMMANDS[engine]));
    Ok(Programs { engines, simulators })
}

/// An engine's program, under the name from the settings or its usual name, and the file that was found for it.
pub(crate) struct Candidate {
    pub(crate) program: Program,
    /// The operator named it.
    pub(crate) named: bool,
    pub(crate) file: Option<PathBuf>,
}

/// Returns `PATH`, in which programs are looked for.
pub(crate) fn search_path() -> String {
    environment().into_iter().find(|(name, _)| name == "PATH").map(|it| it.1).unwrap_or_default()
}

/// Returns the program of each engine, whether it exists or not; `path` is the search path.
pub(crate) fn wanted(settings: &Settings, path: &str) -> PerEngine<Candidate> {
    let candidate = |engine, command: Option<&CommandWords>, usual: &[&str]| {
        let words: Vec<String> = match command {
            Some(CommandWords(words)) => words.clone(),
            None => usual.iter().map(|it| (*it).to_owned()).collect(),
        };
        let program = program(engine, words);
        let file = program.find(path);
        Candidate { program, named: command.is_some(), file }
    };
    PerEngine {
        vllm: candidate(
            EngineKind::Vllm,
            settings.engines.primary_engine_command.as_ref(),
            &["vllm", "serve"],
        ),
        llamacpp: candidate(
            EngineKind::Llamacpp,
            settings.engines.secondary_engine_command.as_ref(),
            &["llama-server"],
        ),
    }
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

/// Logs which program runs the models of an engine. A missing program is no error, because there may be no models for
/// that engine.
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

pub(crate) fn flavour(engine: EngineKind) -> Flavour {
    match engine {
        EngineKind::Vllm => Flavour::Vllm,
        EngineKind::Llamacpp => Flavour::Llamacpp,
    }
}

/// Returns the environment variables that are UTF-8 text; an engine gets no others.
fn environment() -> Vec<(String, String)> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// Returns `gantry engine-sim` as an engine's program, under the name of the simulator's image.
fn simulator(engine: EngineKind) -> anyhow::Result<Program> {
    let file = std::env::current_exe().context("this program does not know its own file")?;
    // If the program's file was replaced, the running program can still be started from here.
    let file = if file.exists() { file } else { PathBuf::from("/proc/self/exe") };
    let flavour = flavour(engine);
    let words = [&file.to_string_lossy(), gantry_sim::VERB, "--flavour", flavour.name()];
    let program = program(engine, words.map(str::to_owned).into());
    Ok(Program { reference: flavour.default_tag(), ..program })
}
