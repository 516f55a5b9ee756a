//! The verbs of the command line, through the real program against a real gateway.

mod apply;
mod chat;
mod completion;
mod context;
mod doctor;
mod doctor_rights;
mod egress;
mod habits;
mod hostile;
mod jobs;
mod local;
mod models;
mod newcomer;
mod offline;
mod output;
mod own;
mod package;
mod people;
mod progress;
mod registry;
mod restore;
mod root_rights;
mod signing_in;
mod streams;
mod terminal;
pub(crate) mod tls;
mod tokens;
mod upgrade;
mod usage;
mod watch;

use std::{
    io::Write,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

use gantry_testkit::{Gateway, Options, PATIENCE};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{GANTRY, start};

/// A gateway whose llama.cpp is the simulator, as a program of its own that somebody named, and the home of that program.
async fn with_engine() -> (Gateway, TempDir) {
    let home = TempDir::new().unwrap();
    let program = home.path().join("llama-server");
    let script = format!("#!/bin/sh\nexec {GANTRY} engine-sim --flavour llamacpp \"$@\"\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = Options::processes().env("SECONDARY_ENGINE_COMMAND", program.to_str().unwrap());
    let gateway = start(options).await;
    std::fs::write(gateway.models_dir().join("m.gguf"), "").unwrap();
    (gateway, home)
}

/// A person at a shell, with a home of their own.
struct Shell {
    home: TempDir,
    url: String,
}

/// Whether a terminal does something else with the character than show it.
fn obeyed(it: char) -> bool {
    (it.is_control() && it != '\n') || matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What a command left behind.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Longest time that a command may take.
const RUNS: Duration = Duration::from_mins(4);

impl Ran {
    /// Waits for the command. One that takes too long is killed, so that the test says what it has printed.
    fn when_ended(child: Child) -> Self {
        let (pid, (done, ended)) = (child.id().to_string(), mpsc::channel());
        std::thread::spawn(move || done.send(child.wait_with_output()));
        let output = ended.recv_timeout(RUNS).unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            ended.recv_timeout(PATIENCE).expect("it ends when it is killed")
        });
        Self::of(output.unwrap())
    }

    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Fails unless this was the exit code.
    #[track_caller]
    fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Standard output, all of it JSON.
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// The error that a program reads on standard error.
    #[track_caller]
    fn error(&self) -> Value {
        serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.err))
    }
}

impl Shell {
    /// Makes models of the engine of [`with_engine`].
    fn make(&self, names: &[&str]) {
        for name in names {
            let args =
                ["models", "create", "--served-name", name, "--engine", "llamacpp", "--path", "m.gguf"];
            self.run(&[&args[..], &["-s", "device=cpu"]].concat()).ends(0);
        }
    }

    fn at(url: &str) -> Self {
        Self { home: TempDir::new().unwrap(), url: url.to_owned() }
    }

    /// Signed in as the owner.
    fn of_owner(gateway: &Gateway) -> Self {
        let shell = Self::at(&gateway.url);
        shell.run_with(&["login", "owner"], "owner-password\n").ends(0);
        shell
    }

    fn command(&self, args: &[&str]) -> Command {
        self.program(GANTRY, args)
    }

    fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.home.path()).env_clear();
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("TZ", "UTC")
            .env("GANTRY_URL", &self.url);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ran::when_ended(command.spawn().unwrap())
    }

    fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::when_ended(child)
    }
}
