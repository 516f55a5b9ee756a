//! Deployment packages: exports, imports, and restores of the database, as jobs.
//!
//! The work of such a job is sequential and mostly reads and writes files, so it has an operating system's thread of its own
//! ([`thread`]), with low priority: requests go first. What is asynchronous (the database, the container runtime) is waited
//! for on that thread.

pub mod drill;
mod dump_source;
mod export;
mod images;
mod import;
mod import_images;
mod plan;
mod restore;
mod selection;
mod thread;

use std::sync::Arc;

pub use dump_source::{BACKUP_DATABASE, DumpSource, OpenDump};
use gantry_domain::{
    ApiError, ErrorCode,
    audit::AuditEntry,
    deployment::{Estimate, ExportRequest, ImportPlan, ImportRequest, RestoreRequest},
    job::{Job, JobKind},
};
use gantry_package::writer::WriteError;
use gantry_store::{Constraint, StoreError};
pub use import::Then;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::Control;

/// Begins the export of a package, and returns its job.
///
/// # Errors
/// 409 `job_running` if another deployment job runs, 404 for a model that is not there, 503 without a database.
pub async fn export(
    control: &Arc<Control>,
    request: ExportRequest,
    did: AuditEntry,
) -> Result<Job, ApiError> {
    let kind = if request.model.is_some() { JobKind::ModelExport } else { JobKind::Export };
    let object = request.dir.display().to_string();
    let own = Arc::clone(control);
    let work = |job| {
        thread::run(own, job, move |work| {
            work.audit(&did)?;
            export::run(work, &request)
        })
    };
    let (job, _) = control.jobs.start(kind, &object, work).await.map_err(|error| not_begun(&error))?;
    Ok(job)
}

/// Returns how much an export would write. Nothing is written.
///
/// # Errors
/// 503 if the container runtime or the database does not answer; 422 for files that can't be carried.
pub async fn estimate(control: &Arc<Control>, request: ExportRequest) -> Result<Estimate, ApiError> {
    plan::estimate(control, request).await
}

/// Returns what an import would do. Nothing is written.
///
/// # Errors
/// 422 for a package that can't be used, 503 if the container runtime does not answer.
pub async fn plan_import(control: &Arc<Control>, request: ImportRequest) -> Result<ImportPlan, ApiError> {
    import::plan(control, request).await
}

/// Begins to take images and weights from a package, after which `then` makes the models. Returns the job, and a receiver of
/// its end.
///
/// # Errors
/// 409 `job_running` if another deployment job runs, 503 without a database.
pub async fn import(
    control: &Arc<Control>,
    request: ImportRequest,
    did: AuditEntry,
    then: Then,
) -> Result<(Job, oneshot::Receiver<Result<(), ApiError>>), ApiError> {
    let object = request.dir.display().to_string();
    let own = Arc::clone(control);
    let work = |job| {
        thread::run(own, job, move |work| {
            work.audit(&did)?;
            import::run(work, &request, then)
        })
    };
    control.jobs.start(JobKind::Import, &object, work).await.map_err(|error| not_begun(&error))
}

/// Begins to restore the database from a dump, and returns the job.
///
/// # Errors
/// 409 `job_running` if another deployment job runs, 503 without a database.
pub async fn restore(
    control: &Arc<Control>,
    request: RestoreRequest,
    did: AuditEntry,
) -> Result<Job, ApiError> {
    let object = request.dir.display().to_string();
    let own = Arc::clone(control);
    let work = |job| {
        thread::run(own, job, move |work| {
            work.audit(&did)?;
            restore::run(work, &request, &did)
        })
    };
    let started = control.jobs.start(JobKind::DbRestore, &object, work).await;
    Ok(started.map_err(|error| not_begun(&error))?.0)
}

/// Says why a deployment job did not begin.
fn not_begun(error: &StoreError) -> ApiError {
    match error {
        StoreError::Conflict(Constraint::DeploymentJob) => ApiError::new(
            ErrorCode::JobRunning,
            "another deployment job runs: wait for its end, or cancel it (GET /admin/deployment/status)",
        ),
        error => crate::jobs::unstored(error),
    }
}

/// An error with which a job fails.
fn failed(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidState, message)
}

/// What a job made, as JSON.
fn artifacts(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Says why the package can't be written.
fn unwritten(error: &WriteError) -> ApiError {
    match error {
        WriteError::Stopped => thread::cancelled(),
        error if error.is_full() => failed(format!(
            "no space left: {error}. Make room and run the export again: it goes on where it stopped"
        )),
        error => failed(format!("the package can't be written: {error}")),
    }
}
