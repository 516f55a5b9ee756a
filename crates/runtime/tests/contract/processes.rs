//! Runs engines on this machine as processes: shell scripts, in a directory that ends with the test.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use gantry_domain::model::{EngineKind, PerEngine};
use gantry_runtime::{Owner, Process, ProcessOptions, Program, Programs, process};
use serde_json::Value;

pub(crate) struct Processes {
    pub(crate) dir: tempfile::TempDir,
    simulator: PathBuf,
}

impl Processes {
    pub(crate) const SIMULATOR: &str = "simulator:1";

    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let simulator = dir.path().join("simulator");
        fs::write(&simulator, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&simulator, fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir, simulator }
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(crate) fn seen_by(&self, owner: Owner) -> Process {
        let program = |reference: &str, word: &str, engine, simulator| Program {
            reference: reference.to_owned(),
            words: vec![word.to_owned()],
            engine,
            simulator,
            version: simulator.then(|| "1.2.3".to_owned()),
        };
        let simulator = self.simulator.to_str().unwrap();
        let options = ProcessOptions {
            dir: self.run_dir(),
            home: "test".to_owned(),
            supervisor: supervisor(),
            programs: Programs {
                engines: PerEngine {
                    vllm: program("shell:1", "/bin/sh", EngineKind::Vllm, false),
                    llamacpp: program("absent:1", "/no/such/program", EngineKind::Llamacpp, false),
                },
                simulators: PerEngine {
                    vllm: program(Self::SIMULATOR, simulator, EngineKind::Vllm, true),
                    llamacpp: program("simulator:2", simulator, EngineKind::Llamacpp, true),
                },
            },
            has_gpus: false,
            environment: [("PATH", "/usr/bin:/bin"), ("SESSION_SECRET", "s3cret-of-the-gateway")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        };
        process(options, owner).unwrap()
    }

    pub(crate) fn occupy(&self, name: &str) {
        fs::create_dir_all(self.run_dir().join(name)).unwrap();
    }

    /// Returns the state that the supervisor noted down.
    pub(crate) fn state(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.run_dir().join(name).join("state.json")).unwrap()).unwrap()
    }

    pub(crate) fn kill(&self, name: &str) {
        kill(pid(&self.state(name), "engine_pid"));
    }

    pub(crate) fn kill_supervisor(&self, name: &str) {
        kill(pid(&self.state(name), "pid"));
    }
}

impl Drop for Processes {
    /// An engine ends with its supervisor, and a failed test must leave nothing running.
    fn drop(&mut self) {
        for entry in fs::read_dir(self.run_dir()).into_iter().flatten().flatten() {
            let state = fs::read(entry.path().join("state.json")).ok();
            let state = state.and_then(|it| serde_json::from_slice::<Value>(&it).ok());
            if let Some(state) = state.filter(|it| it["exit"].is_null()) {
                kill(pid(&state, "pid"));
            }
        }
    }
}

fn pid(state: &Value, name: &str) -> i64 {
    state[name].as_i64().unwrap()
}

fn kill(pid: i64) {
    // It may have ended.
    Command::new("kill").args(["-KILL", &pid.to_string()]).output().unwrap();
}

/// Whether the process lives; a zombie does not.
pub(crate) fn lives(pid: i64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The example program of this crate, which the test runner builds too.
fn supervisor() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("examples/engine_supervisor");
    assert!(program.exists(), "cargo builds the examples of a package with its tests");
    program
}
