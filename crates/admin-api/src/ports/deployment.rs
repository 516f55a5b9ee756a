//! Deployment packages.

use futures_util::future::BoxFuture;
use gantry_domain::{
    ApiError, JobId,
    audit::AuditEntry,
    deployment::{Estimate, ExportRequest, ImportRequest, RestoreRequest},
    job::Job,
    view,
};

/// Deployment packages, and restores of the database.
pub trait Deployment: Send + Sync + 'static {
    /// Begins an export. `did` is its row of the audit log, whose object becomes the job.
    fn export(
        &self,
        request: ExportRequest,
        did: AuditEntry,
    ) -> BoxFuture<'static, Result<Job, ApiError>>;
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
    fn restore(
        &self,
        request: RestoreRequest,
        did: AuditEntry,
    ) -> BoxFuture<'static, Result<Job, ApiError>>;
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

view! {
    /// What an import would do with images and files.
    #[derive(Debug, Clone, Default)]
    pub struct ImportPlan {
        /// Images that would be loaded.
        pub load_images: Vec<String>,
        /// Images that are there already.
        pub present_images: Vec<String>,
        /// Images that models need, and that are neither in the package nor on this machine.
        pub missing_images: Vec<String>,
        /// Files of weights that would be put in place.
        pub new_files: u64,
        /// Their bytes.
        pub new_bytes: u64,
        /// Files that are there with the same size. They are compared before anything is put in place, and left as they are.
        pub present_files: u64,
        /// Files that are there with another size: the import is refused.
        pub conflicting_files: Vec<String>,
        /// Free bytes where weights would go.
        pub available_bytes: u64,
        /// What the package itself lacks, such as a base that was not named.
        pub problems: Vec<String>,
    }
}

impl ImportPlan {
    /// Whether an import could do its work now.
    pub fn is_possible(&self) -> bool {
        self.conflicting_files.is_empty() && self.problems.is_empty() && self.new_bytes <= self.available_bytes
    }
}
