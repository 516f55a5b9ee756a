//! Starts an engine: first the record, then the process, so that no engine ever runs that can't be found.

use std::{io::ErrorKind, process::Stdio, time::Duration};

use gantry_domain::model::lifecycle::InstanceId;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use super::{
    environment,
    look::Seen,
    program::Program,
    record::{Dir, Record},
    shim::{STARTED, VERB},
    state::{KILL, Process, blocking},
    system,
};
use crate::{ContainerSpec, RuntimeError, RuntimeResult, gate::pass};

/// Longest time until a supervisor has started the engine. It has nothing else to do, but the machine may be busy.
const START: Duration = Duration::from_secs(20);
const ACTION: &str = "start the engine";

impl Process {
    pub(super) async fn launch_engine(&self, spec: &ContainerSpec<'_>) -> RuntimeResult<InstanceId> {
        let image = &spec.launch.image;
        let Some(program) = self.options.programs.named(image) else {
            return Err(RuntimeError::ImageMissing { image: image.clone() });
        };
        let Some(file) = program.find(self.path()) else {
            return Err(RuntimeError::ProgramMissing { program: program.reference.clone() });
        };
        if let Some(name) = environment::refused_variable(spec.launch) {
            let detail =
                format!("`extra_env` can't set `{name}` for an engine that is a process of this machine");
            return Err(RuntimeError::Process { action: ACTION, detail });
        }
        self.clear_name(spec.name).await?;
        let id = uuid::Uuid::now_v7().simple().to_string();
        let record = Record::new(spec, &self.owner, id.clone(), self.clock.now());
        let dir = self.make_dir(record).await?;
        if let Err(error) = pass(&*self.gate).await {
            // The directory is of no use, and it is this gateway's own.
            blocking(ACTION, move || dir.remove(&id)).await?;
            return Err(error);
        }
        let started = self.start(spec, program, &file, &dir, &id).await;
        if let Err(error) = started {
            // An engine that could not be started is of no use. Processes of it that run are ended first.
            let (owner, it) = (self.owner.instance.clone(), dir.clone());
            let cleared = blocking("clear up", move || {
                system::sweep(&owner, &id, None, KILL);
                it.remove(&id)
            });
            if let Err(error) = cleared.await {
                tracing::warn!(%error, name = spec.name, "could not clear up after a start that failed");
            }
            return Err(error);
        }
        let (model, at) = (spec.model_id, dir.clone());
        let state = blocking("look at the engine", move || at.state()).await?;
        self.tell(model, state.map(|it| (dir, it.pid)));
        Ok(InstanceId(id))
    }

    /// Makes sure that no engine of ours has this name.
    async fn clear_name(&self, name: &str) -> RuntimeResult<()> {
        match self.look(name).await? {
            None => Ok(()),
            Some(Seen::Ours(old)) => self.remove_engine(*old).await,
            Some(Seen::Foreign) => Err(RuntimeError::NameInUse { name: name.to_owned() }),
        }
    }

    async fn make_dir(&self, record: Record) -> RuntimeResult<Dir> {
        let (run, name) = (self.options.dir.clone(), record.name.clone());
        let made = blocking(ACTION, move || match Dir::make(&run, &record) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            made => made.map(Some),
        });
        made.await?.ok_or(RuntimeError::NameInUse { name })
    }

    async fn start(
        &self,
        spec: &ContainerSpec<'_>,
        program: &Program,
        file: &std::path::Path,
        dir: &Dir,
        id: &str,
    ) -> RuntimeResult<()> {
        let refused = |detail: String| RuntimeError::Process { action: ACTION, detail };
        let memlock = if spec.launch.locks_memory { "memlock" } else { "-" };
        let mark = system::mark(&self.owner.instance, id);
        let environment =
            environment::of(spec.launch, &self.options.environment, mark, self.options.has_gpus);
        let mut command = Command::new(&self.options.supervisor);
        command
            .arg0("gantry")
            .args([VERB, "run"])
            .arg(&dir.0)
            .args([id, memlock])
            // The words of the program, not those of the launch: a record does not decide what is run.
            .arg(file)
            .args(&program.words[1..])
            .args(&spec.launch.args)
            .env_clear()
            .envs(environment)
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| refused(error.kind().to_string()))?;
        let Some(stdout) = child.stdout.take() else { return Err(refused("it can't be heard".to_owned())) };
        let mut said = String::new();
        let heard = timeout(START, BufReader::new(stdout).read_line(&mut said)).await;
        // From here on the supervisor is on its own. Tokio collects it when it ends, so that it never is a zombie.
        drop(child);
        match (heard, said.trim()) {
            (Ok(_), STARTED) => Ok(()),
            (Ok(_), "") => Err(refused("its supervisor ended".to_owned())),
            (Ok(_), why) => Err(refused(why.trim_start_matches("failed: ").to_owned())),
            (Err(_), _) => Err(refused("its supervisor says nothing".to_owned())),
        }
    }
}
