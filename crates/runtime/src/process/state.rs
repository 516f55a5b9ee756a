//! What the process runtime works with: its settings, and work on files off the async threads.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_domain::Clock;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::{events::Change, program::Programs};
use crate::{Gate, Owner, RuntimeError, RuntimeResult};

/// Time that a supervisor gets to end its engine at once.
pub(super) const KILL: Duration = Duration::from_secs(5);

/// Settings of the process runtime, and what it needs to know of the machine.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// Directory of the engines' records and logs; made if it does not exist.
    pub dir: PathBuf,
    /// Id of the gateway's data directory: only a gateway that has it sees these engines.
    pub home: String,
    /// A program that becomes a supervisor ([`supervise`](super::supervise)) when its first argument is
    /// [`VERB`](super::VERB).
    pub supervisor: PathBuf,
    pub programs: Programs,
    /// Whether this machine has GPUs, so that an engine that is given none must not see them.
    pub has_gpus: bool,
    /// The gateway's own environment, of which engines get a small part.
    pub environment: Vec<(String, String)>,
}

/// Runs engines as processes.
#[derive(Debug)]
pub struct Process {
    pub(super) owner: Owner,
    pub(super) gate: Arc<dyn Gate>,
    pub(super) options: ProcessOptions,
    pub(super) clock: Clock,
    /// When processes without a record were last looked for.
    pub(super) swept: Arc<Mutex<Option<Instant>>>,
    pub(super) changes: broadcast::Sender<Change>,
}

/// Makes an error that names only the kind of an I/O error, because paths of this machine are not shown.
pub(super) fn failed(action: &'static str, error: &io::Error) -> RuntimeError {
    RuntimeError::Process { action, detail: error.kind().to_string() }
}

/// Does work on files and `/proc`, off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    action: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> RuntimeResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| failed(action, &error)),
        Err(_) => Err(RuntimeError::Process { action, detail: "it was interrupted".to_owned() }),
    }
}
