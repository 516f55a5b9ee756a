//! Deployment packages.

use futures_util::future::BoxFuture;
use gantry_domain::{
    ApiError, JobId,
    audit::AuditEntry,
    deployment::{Estimate, ExportRequest, ImportPlan, ImportRequest, RestoreRequest},
    job::Job,
};

/// Deployment packages, and restores of the database.
pub trait Deployment: Send + Sync + 'static {
    /// Begins an export. `did` is its row of the audit log, whose object becomes the job.
    fn export(&self, request: ExportRequest, did: AuditEntry) -> BoxFuture<'static, Result<Job, ApiError>>;
    /// Returns how much an export would write.
    fn estimate(&self, request: ExportRequest) -> BoxFuture<'static, Result<Estimate, ApiError>>;
    /// Returns what an import would do.
    fn plan_import(&self, request: ImportRequest) -> BoxFuture<'static, Result<ImportPlan, ApiError>>;
    /// Begins an import of images and weights; `then` makes the models, as the job's last step.
    fn import(
        &self,
        request: ImportRequest,
        did: AuditEntry,
        then: AfterImport,
    ) -> BoxFuture<'static, Result<ImportJob, ApiError>>;
    /// Begins a restore of the database.
    fn restore(&self, request: RestoreRequest, did: AuditEntry) -> BoxFuture<'static, Result<Job, ApiError>>;
    /// Cancels a job of this gateway. Returns `false` if it does not run here.
    fn cancel(&self, id: JobId) -> bool;
}

/// Makes models once their images and weights are in place. Returns what was made, for the job's record.
pub type AfterImport =
    Box<dyn FnOnce() -> BoxFuture<'static, Result<serde_json::Value, ApiError>> + Send + 'static>;

/// An import that has begun.
pub struct ImportJob {
    pub job: Job,
    /// Its end.
    pub done: BoxFuture<'static, Result<(), ApiError>>,
}
