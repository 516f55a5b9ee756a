//! Keeps an engine's process on disk, so that it is found again: one directory for each name below the run directory.
//!
//! ```text
//! run/primary-model-7/
//!   instance.json   who it is: written by the gateway before anything starts, never changed
//!   lock            held (flock) by the supervisor as long as it lives
//!   state.json      pids, port and, at the end, how it ended: written by the supervisor
//!   exit            how it ended, where no room was left to write that down: a link to nothing, whose text says it
//!   log, log.1, …   what the engine printed
//! ```
//!
//! The lock alone shows whether an engine runs. The kernel releases it when the supervisor dies in whatever way, at the
//! latest with the machine. Unlike a process id, it can't come to mean another process.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use gantry_domain::{
    ModelId, Timestamp,
    engine::EngineAddress,
    model::{
        EngineKind,
        lifecycle::{Instance, InstanceId, InstanceNumber, InstanceStatus},
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::system;
use crate::{ContainerSpec, Found, Owner};

const RECORD: &str = "instance.json";
const STATE: &str = "state.json";
const LOCK: &str = "lock";
const EXIT: &str = "exit";
/// Ends of the names of directories that are no engines: one is being made, one is being removed.
const NEW: &str = ".new";
const GONE: &str = ".gone";

/// Exit code of a process that SIGKILL ended, as shells and container engines write it.
pub(super) const KILLED: i64 = 137;

/// `instance.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// [`Owner::instance`].
    pub(super) owner: String,
    /// Id of this start; differs from that of every other.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) model_id: i64,
    /// Which of the model's instances it is. Records of older versions of the gateway do not have it.
    #[serde(default)]
    pub(super) number: InstanceNumber,
    pub(super) generation: i64,
    pub(super) spec_hash: String,
    pub(super) key_fingerprint: String,
    pub(super) created_at: Timestamp,
}

/// `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The supervisor's process id.
    pub(super) pid: i32,
    pub(super) engine_pid: i32,
    pub(super) port: u16,
    pub(super) started_at: Timestamp,
    pub(super) exit: Option<Exit>,
    /// Boot id of the machine when the engine started, see [`system::boot_id`]: after another boot the pids mean
    /// nothing.
    #[serde(default)]
    pub(super) boot: String,
}

impl State {
    /// Returns the session that the supervisor leads, if that number can still mean it.
    pub(super) fn session(&self) -> Option<i32> {
        (!self.boot.is_empty() && self.boot == system::boot_id()).then_some(self.pid)
    }
}

/// How an engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exit {
    /// The exit code as a shell shows it: 128 plus the signal's number if a signal ended the engine.
    pub(super) code: i64,
    pub(super) out_of_memory: bool,
    pub(super) at: Timestamp,
}

impl Exit {
    /// Formats it in few bytes: a link of less than 60 takes no block of the usual file systems.
    fn to_text(self) -> String {
        format!("{} {} {}", self.code, u8::from(self.out_of_memory), self.at.0)
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let code = parts.next()?.parse().ok()?;
        let out_of_memory = parts.next()? == "1";
        Some(Self { code, out_of_memory, at: Timestamp(parts.next()?.parse().ok()?) })
    }
}

impl Record {
    pub(super) fn new(spec: &ContainerSpec<'_>, owner: &Owner, id: String, now: Timestamp) -> Self {
        Self {
            owner: owner.instance.clone(),
            id,
            name: spec.name.to_owned(),
            model_id: spec.model_id.0,
            number: spec.number,
            generation: spec.generation,
            spec_hash: spec.launch.spec_hash(),
            key_fingerprint: spec.key_fingerprint.to_owned(),
            created_at: now,
        }
    }
}

/// The directory of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn of(run: &Path, name: &str) -> Self {
        Self(run.join(name))
    }

    /// Whether its name is none that an engine of ours could have: then another program or person put it here.
    pub(super) fn is_odd(&self) -> bool {
        let name = self.0.file_name().and_then(OsStr::to_str).unwrap_or_default();
        !EngineKind::is_instance_name(name)
    }

    /// Makes the directory with all its files or not at all. Returns [`ErrorKind::AlreadyExists`] if something has the
    /// name.
    pub(super) fn make(run: &Path, record: &Record) -> io::Result<Self> {
        let part = Self(run.join(format!("{}{NEW}", record.id)));
        if let Err(error) = private(&part.0).and_then(|()| part.write(RECORD, record)) {
            // Removed, because on a full disk each attempt would leave one behind.
            let _ = fs::remove_dir_all(&part.0);
            return Err(error);
        }
        let dir = Self::of(run, &record.name);
        // A rename onto an empty directory would replace it.
        let renamed = match dir.0.symlink_metadata() {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(&part.0, &dir.0),
        };
        if let Err(error) = renamed {
            // The directory is of no use; the next start of the gateway would remove it too.
            let _ = fs::remove_dir_all(&part.0);
            let taken = matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory);
            return Err(if taken { ErrorKind::AlreadyExists.into() } else { error });
        }
        Ok(dir)
    }

    /// Removes the directory: first by a rename, so that no look sees it any more, then from the disk.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        let gone = self.0.with_file_name(format!("{id}{GONE}"));
        match fs::rename(&self.0, &gone) {
            Ok(()) => fs::remove_dir_all(gone),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the record; `None` if there is none that can be read: then the directory is not ours.
    pub(super) fn record(&self) -> io::Result<Option<Record>> {
        self.read(RECORD)
    }

    pub(super) fn state(&self) -> io::Result<Option<State>> {
        let mut state: Option<State> = self.read(STATE)?;
        if let Some(state) = state.as_mut().filter(|it| it.exit.is_none())
            && let Ok(text) = fs::read_link(self.0.join(EXIT))
        {
            state.exit = text.to_str().and_then(Exit::from_text);
        }
        Ok(state)
    }

    /// Notes the end. If the disk is full, the end is kept as the text of a link.
    pub(super) fn write_end(&self, state: &State, exit: Exit) -> io::Result<()> {
        let ended = State { exit: Some(exit), ..state.clone() };
        self.write_state(&ended).or_else(|_| symlink(exit.to_text(), self.0.join(EXIT)))
    }

    pub(super) fn write_state(&self, state: &State) -> io::Result<()> {
        self.write(STATE, state)
    }

    /// Whether a supervisor is alive.
    pub(super) fn is_held(&self) -> io::Result<bool> {
        let lock = match File::open(self.0.join(LOCK)) {
            Ok(lock) => lock,
            Err(error) if is_missing(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        // A shared lock, so that two callers that ask at once do not take each other for the supervisor.
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes the lock for the supervisor, which holds it as long as it keeps the file.
    pub(super) fn hold(&self) -> io::Result<File> {
        let path = self.0.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        // Waits, because a caller that checks the lock holds it for a moment.
        lock.lock()?;
        Ok(lock)
    }

    fn read<T: DeserializeOwned>(&self, file: &str) -> io::Result<Option<T>> {
        match fs::read(self.0.join(file)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file so that a crash leaves the old text or the new one.
    fn write(&self, file: &str, value: &impl Serialize) -> io::Result<()> {
        let path = self.0.join(file);
        let part = self.0.join(format!("{file}.part"));
        let text = serde_json::to_vec_pretty(value)?;
        let written = || {
            let mut out =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&part)?;
            out.write_all(&text)?;
            out.sync_all()?;
            fs::rename(&part, path)
        };
        written().inspect_err(|_| drop(fs::remove_file(&part)))
    }

    /// Returns what the reconciler sees of the engine.
    pub(super) fn found(record: Record, state: Option<&State>, held: bool) -> Found {
        let status = match (held, state) {
            (true, state) => {
                InstanceStatus::Running { address: state.map(|it| EngineAddress::loopback(it.port)) }
            }
            (false, None) => InstanceStatus::Created,
            (false, Some(state)) => {
                // If no end was noted, the engine was killed with its supervisor.
                let (code, out_of_memory) =
                    state.exit.map_or((KILLED, false), |it| (it.code, it.out_of_memory));
                InstanceStatus::Exited { code, out_of_memory }
            }
        };
        Found {
            model_id: ModelId(record.model_id),
            number: record.number,
            name: record.name,
            instance: Instance { id: InstanceId(record.id), generation: record.generation, status },
            spec_hash: record.spec_hash,
            key_fingerprint: record.key_fingerprint,
            started_at: state.map(|it| it.started_at),
        }
    }
}

/// Returns every directory that may be an engine's.
pub(super) fn all(run: &Path) -> io::Result<Vec<Dir>> {
    let mut dirs = Vec::new();
    for entry in fs::read_dir(run)? {
        let path = entry?.path();
        if ![NEW, GONE].iter().any(|it| path.to_string_lossy().ends_with(it)) {
            dirs.push(Dir(path));
        }
    }
    Ok(dirs)
}

/// Makes the run directory, and removes directories that a killed gateway had half made or half removed.
pub(super) fn prepare(run: &Path) -> io::Result<()> {
    private(run)?;
    for entry in fs::read_dir(run)? {
        let path = entry?.path();
        if [NEW, GONE].iter().any(|it| path.to_string_lossy().ends_with(it)) {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// Makes a directory that only this user may read: logs contain users' requests.
fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
