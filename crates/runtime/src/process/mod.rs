//! Engines as processes of this machine, for machines without a container engine.
//!
//! Each engine has a supervisor of its own ([`shim`]) between it and the gateway, so that it outlives the gateway and
//! yet has a parent that waits for it. What is known of it is on disk ([`record`]); the gateway itself remembers
//! nothing. A lock shows whether it runs. Processes that it left behind are found by a mark in their environment
//! ([`system`]). Linux only.

mod environment;
mod events;
mod launch;
mod look;
mod output;
mod port;
mod program;
mod record;
mod shim;
mod state;
mod system;
mod times;

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream, stream::BoxStream};
use gantry_domain::{
    Clock, LogWindow, ModelId,
    engine::Launch,
    listeners::Listeners,
    model::lifecycle::InstanceId,
    runtime::{PROCESS, Traits},
};
use rustix::process::Signal;
use tokio::{sync::broadcast, time::timeout};

use self::{
    events::Change,
    look::{Look, Seen},
    record::{Dir, State},
    state::{KILL, blocking, failed},
};
pub use self::{
    program::{Program, Programs},
    shim::{VERB, supervise},
    state::{Process, ProcessOptions},
    system::{boot_id, engine_of},
};
use crate::{
    ContainerSpec, Found, Gate, ImageInfo, ImageProbe, Open, Owner, Progress, Runtime, RuntimeError,
    RuntimeInfo, RuntimeResult, gate::pass,
};

/// Number of changes that are kept for a slow listener; it misses those before them.
const CHANGES: usize = 256;

/// # Errors
/// The directory can't be made or cleared up. Blocking.
pub fn process(mut options: ProcessOptions, owner: Owner) -> RuntimeResult<Process> {
    record::prepare(&options.dir).map_err(|error| failed("use the directory for engines", &error))?;
    options.environment = environment::passed(options.environment);
    let (changes, _) = broadcast::channel(CHANGES);
    Ok(Process {
        owner,
        gate: Arc::new(Open),
        options,
        clock: Clock::default(),
        swept: Arc::default(),
        changes,
    })
}

impl Process {
    pub const TRAITS: Traits = Traits {
        name: PROCESS,
        instance: "process",
        runs_images: false,
        pulls_images: false,
        loads_archives: false,
        exports_images: false,
        shares_host_gpus: true,
        host_paths: true,
    };

    /// Changes engines only while `gate` is open.
    #[must_use]
    pub fn behind(self, gate: Arc<dyn Gate>) -> Self {
        Self { gate, ..self }
    }

    /// Asks the engine to end, waits for `grace`, then kills it.
    async fn stop_engine(&self, it: &Look, grace: Duration) -> RuntimeResult<()> {
        pass(&*self.gate).await?;
        if let (true, Some(State { pid, .. })) = (it.held, &it.state) {
            let steps = [(Signal::TERM, grace), (Signal::QUIT, KILL)];
            for (signal, patience) in steps.into_iter().skip(usize::from(grace.is_zero())) {
                if signalled(&it.dir, *pid, signal).await
                    && timeout(patience, events::ended(&it.dir, *pid)).await.is_ok()
                {
                    return Ok(());
                }
            }
        }
        // The engine has no supervisor, or one that does not react.
        let (owner, id) = (it.record.owner.clone(), it.record.id.clone());
        let session = it.state.as_ref().and_then(State::session);
        let swept =
            blocking("stop the engine", move || Ok(system::sweep(&owner, &id, session, KILL))).await?;
        if !swept {
            let detail = "its processes do not end, not even by force".to_owned();
            return Err(RuntimeError::Process { action: "stop the engine", detail });
        }
        Ok(())
    }

    async fn remove_engine(&self, it: Look) -> RuntimeResult<()> {
        self.stop_engine(&it, Duration::ZERO).await?;
        let model = ModelId(it.record.model_id);
        blocking("remove the engine's files", move || it.dir.remove(&it.record.id)).await?;
        self.tell(model, None);
        Ok(())
    }

    fn tell(&self, model: ModelId, started: Option<(Dir, i32)>) {
        // An error means only that there are no listeners.
        let _ = self.changes.send(Change { model, started });
    }

    fn path(&self) -> &str {
        let path = self.options.environment.iter().find(|(name, _)| name == "PATH");
        path.map_or("/usr/local/bin:/usr/bin:/bin", |(_, value)| value)
    }
}

/// Sends a signal to the supervisor of `dir`, and to no other process that may have its process id by now. Returns
/// whether it was sent.
async fn signalled(dir: &Dir, pid: i32, signal: Signal) -> bool {
    let dir = dir.clone();
    let sent =
        tokio::task::spawn_blocking(move || system::send(pid, signal, || dir.is_held().unwrap_or(false)));
    sent.await.unwrap_or(false)
}

fn no_images(action: &'static str) -> RuntimeError {
    let detail = "engines are processes here, so images mean nothing".to_owned();
    RuntimeError::Refused { action, detail }
}

impl Runtime for Process {
    fn traits(&self) -> Traits {
        Self::TRAITS
    }

    fn info(&self) -> BoxFuture<'_, RuntimeResult<RuntimeInfo>> {
        async {
            let dir = self.options.dir.clone();
            blocking("use the directory for engines", move || record::all(&dir).map(drop)).await?;
            let version = env!("CARGO_PKG_VERSION").to_owned();
            Ok(RuntimeInfo { name: Self::TRAITS.name, version, api_version: None })
        }
        .boxed()
    }

    fn identity(&self) -> BoxFuture<'_, RuntimeResult<String>> {
        let identity = format!("processes of {}", self.options.home);
        async move { Ok(identity) }.boxed()
    }

    /// An engine runs under the gateway's user.
    fn listeners(&self) -> Option<Listeners> {
        Some(Listeners { users: vec![rustix::process::geteuid().as_raw()], none: false })
    }

    fn list(&self) -> BoxFuture<'_, RuntimeResult<Vec<Found>>> {
        async { Ok(self.looks().await?.into_iter().map(Look::found).collect()) }.boxed()
    }

    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, RuntimeResult<Option<Found>>> {
        async move {
            Ok(match self.look(name).await? {
                Some(Seen::Ours(it)) => Some(it.found()),
                Some(Seen::Foreign) | None => None,
            })
        }
        .boxed()
    }

    fn launch<'a>(&'a self, spec: &'a ContainerSpec<'a>) -> BoxFuture<'a, RuntimeResult<InstanceId>> {
        self.launch_engine(spec).boxed()
    }

    fn refused_variable<'a>(&self, launch: &'a Launch) -> Option<&'a str> {
        environment::refused_variable(launch)
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, RuntimeResult<()>> {
        async move {
            match self.by_id(id).await? {
                Some(it) => self.stop_engine(&it, grace).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, RuntimeResult<()>> {
        async move {
            match self.by_id(id).await? {
                Some(it) => self.remove_engine(it).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn logs<'a>(&'a self, id: &'a InstanceId, window: LogWindow) -> BoxFuture<'a, RuntimeResult<String>> {
        async move {
            let Some(it) = self.by_id(id).await? else { return Ok(String::new()) };
            blocking("read the logs", move || output::read(&it.dir, window)).await
        }
        .boxed()
    }

    fn follow_logs<'a>(
        &'a self,
        id: &'a InstanceId,
        window: LogWindow,
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, String>>> {
        async move {
            Ok(match self.by_id(id).await? {
                Some(it) => output::follow(it.dir, window),
                None => stream::empty().boxed(),
            })
        }
        .boxed()
    }

    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, RuntimeResult<Option<ImageInfo>>> {
        async move {
            let Some(program) = self.options.programs.named(reference) else { return Ok(None) };
            let Some(file) = program.find(self.path()) else { return Ok(None) };
            let program = program.clone();
            let described = tokio::task::spawn_blocking(move || program::describe(&program, &file)).await;
            Ok(described.ok().flatten())
        }
        .boxed()
    }

    /// Programs are installed by the machine's operator.
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        _timeout: Duration,
        _progress: Progress,
    ) -> BoxFuture<'a, RuntimeResult<()>> {
        async move { Err(RuntimeError::ProgramMissing { program: reference.to_owned() }) }.boxed()
    }

    fn save<'a>(
        &'a self,
        _references: &'a [String],
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, RuntimeResult<Bytes>>>> {
        async { Err(no_images("save the image")) }.boxed()
    }

    fn load(
        &self,
        _archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> BoxFuture<'_, RuntimeResult<Vec<String>>> {
        async { Err(no_images("load the image")) }.boxed()
    }

    /// The program replaces the first word of the entry point. It runs as an engine would, but without any key.
    fn probe<'a>(
        &'a self,
        probe: &'a ImageProbe<'a>,
        limit: Duration,
    ) -> BoxFuture<'a, RuntimeResult<String>> {
        async move {
            let Some(program) = self.options.programs.named(probe.image) else {
                return Err(RuntimeError::ImageMissing { image: probe.image.to_owned() });
            };
            let Some(file) = program.find(self.path()) else {
                return Err(RuntimeError::ProgramMissing { program: program.reference.clone() });
            };
            let asked = program::ask(program, &file, probe, &self.options.environment);
            match timeout(limit, asked).await {
                Ok(said) => said.map_err(|error| failed("ask the program", &error)),
                Err(_) => Err(RuntimeError::Timeout { action: "ask the image" }),
            }
        }
        .boxed()
    }

    fn events(&self) -> BoxFuture<'_, RuntimeResult<BoxStream<'static, ModelId>>> {
        async {
            // Subscribed before the list, so that nothing that happens meanwhile is missed.
            let changes = self.changes.subscribe();
            let running = self.looks().await?.into_iter().filter(|it| it.held);
            let running = running.filter_map(|it| Some((ModelId(it.record.model_id), it.dir, it.state?.pid)));
            Ok(events::stream(changes, running.collect()))
        }
        .boxed()
    }
}
