//! The job that loads container images from an archive.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use futures_util::{StreamExt, TryStreamExt};
use gantry_domain::{ApiError, ErrorCode, audit::AuditEntry, job::JobKind};
use gantry_runtime::{Runtime, RuntimeError};
use gantry_store::StoreResult;
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::{JobHandle, unstored};
use crate::Control;

/// Bytes of the archive that are read at a time.
const PIECE: usize = 256 << 10;

/// Loads the images of `archive`, which the job's record calls `path`, and returns their references. `did` makes the row
/// of the audit log from them. Waits until the job has ended; the job goes on if nobody waits.
///
/// # Errors
/// 422 for a file that is no archive of images; 503 if the container runtime or the database does not answer.
pub async fn load_images(
    control: &Control,
    archive: PathBuf,
    path: &str,
    did: impl FnOnce(&[String]) -> AuditEntry + Send + 'static,
) -> Result<Vec<String>, ApiError> {
    let (runtime, store, clock) =
        (Arc::clone(&control.runtime), control.store.clone(), control.clock.clone());
    let work = |handle: JobHandle| async move {
        let loaded = load(&*runtime, &archive, &handle).await?;
        let write = async {
            let mut tx = store.write().await?;
            tx.audit(&did(&loaded), clock.now()).await?;
            tx.commit().await
        };
        let written: StoreResult<()> = write.await;
        written.map_err(|error| unstored(&error))?;
        Ok(loaded)
    };
    let started = control.jobs.start(JobKind::ImageLoad, path, work).await;
    let (_, result) = started.map_err(|error| unstored(&error))?;
    // The sender is dropped without a result only when the gateway ends.
    result.await.unwrap_or_else(|_| Err(ApiError::new(ErrorCode::ShuttingDown, "the gateway is stopping")))
}

async fn load(runtime: &dyn Runtime, archive: &Path, handle: &JobHandle) -> Result<Vec<String>, ApiError> {
    let unusable = |why: String| ApiError::invalid("path", format!("the file could not be loaded: {why}"));
    let file = File::open(archive).await.map_err(|error| unusable(error.kind().to_string()))?;
    if let Ok(file) = file.metadata().await {
        handle.set_total(file.len());
    }
    handle.step("the container runtime reads the archive");
    let done = handle.done_bytes();
    let pieces = ReaderStream::with_capacity(file, PIECE).inspect_ok(move |piece| {
        done.fetch_add(piece.len() as u64, Relaxed);
    });
    runtime.load(pieces.boxed()).await.map_err(|error| match error {
        RuntimeError::Refused { detail, .. } | RuntimeError::Archive { detail } => unusable(detail),
        error => ApiError::new(ErrorCode::RuntimeUnavailable, error.to_string()),
    })
}
