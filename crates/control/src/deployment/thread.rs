//! The thread of a deployment job.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use gantry_domain::{ApiError, audit::AuditEntry};
use gantry_package::verify::Progress;
use gantry_store::StoreError;
use tokio::{runtime::Handle, sync::oneshot};

use super::failed;
use crate::{
    Control,
    jobs::{JobHandle, unstored},
};

/// Priority of the thread, as `nice` counts: the lowest.
const NICE: i32 = 19;

/// What the work of a job has at hand.
pub(super) struct Work {
    pub(super) control: Arc<Control>,
    pub(super) job: JobHandle,
    /// Counts the bytes of the job's record; its `stop` is set when the job is cancelled.
    pub(super) progress: Arc<Progress>,
    runtime: Handle,
}

impl Work {
    /// Waits for something asynchronous, until the job is cancelled.
    ///
    /// # Errors
    /// The job is cancelled.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, ApiError> {
        let until_cancelled = async {
            tokio::select! {
                biased;
                () = self.job.cancelled() => Err(cancelled()),
                done = future => Ok(done),
            }
        };
        self.runtime.block_on(until_cancelled)
    }

    /// Waits for something that is not to be cut off.
    pub(super) fn wait_whatever<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Writes a row of the audit log.
    ///
    /// # Errors
    /// The database does not take it: what can't be recorded is not done.
    pub(super) fn audit(&self, did: &AuditEntry) -> Result<(), ApiError> {
        let write = async {
            let mut tx = self.control.store.write().await?;
            tx.audit(did, self.control.clock.now()).await?;
            tx.commit().await
        };
        self.wait(write)?.map_err(|error: StoreError| unstored(&error))
    }

    /// Whether the job is cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.job.is_cancelled()
    }
}

/// The result of work that was cancelled. Nobody sees it: the job's record says `cancelled`.
pub(super) fn cancelled() -> ApiError {
    failed("the job was cancelled")
}

/// Starts a thread with the lowest priority, which the threads that it starts inherit.
pub(super) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("deployment".to_owned()).spawn(move || {
        // Without it the work only takes its share of the CPUs.
        let _ = rustix::process::setpriority_process(None, NICE);
        work();
    });
    thread.map(drop)
}

/// Does blocking work on a thread of its own, and returns its result.
pub(super) async fn run<T: Send + 'static>(
    control: Arc<Control>,
    job: JobHandle,
    work: impl FnOnce(&Work) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let progress = Arc::new(Progress { bytes: job.done_bytes(), stop: AtomicBool::new(false) });
    let own = Work { control, job: job.clone(), progress: Arc::clone(&progress), runtime: Handle::current() };
    let (done, mut result) = oneshot::channel();
    let thread = start(move || {
        // Nobody waits any more if it took too long to end after a cancel.
        let _ = done.send(work(&own));
    });
    thread.map_err(|error| failed(format!("a thread could not be started: {error}")))?;
    tokio::select! {
        ended = &mut result => return ended.unwrap_or_else(|_| Err(ApiError::internal())),
        () = job.cancelled() => progress.stop.store(true, Relaxed),
    }
    result.await.unwrap_or_else(|_| Err(ApiError::internal()))
}
