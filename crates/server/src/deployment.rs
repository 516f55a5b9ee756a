//! Deployment packages for the admin API, by the control plane's jobs.

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use gantry_admin_api::ports::{AfterImport, Deployment, ImportJob};
use gantry_control::{Control, deployment};
use gantry_domain::{
    ApiError, ErrorCode, JobId,
    audit::AuditEntry,
    deployment::{Estimate, ExportRequest, ImportPlan, ImportRequest, RestoreRequest},
    job::Job,
};

/// See [`Deployment`].
pub(crate) struct Packages(pub(crate) Arc<Control>);

impl Deployment for Packages {
    fn export(&self, request: ExportRequest, did: AuditEntry) -> BoxFuture<'static, Result<Job, ApiError>> {
        let control = Arc::clone(&self.0);
        async move { deployment::export(&control, request, did).await }.boxed()
    }

    fn estimate(&self, request: ExportRequest) -> BoxFuture<'static, Result<Estimate, ApiError>> {
        let control = Arc::clone(&self.0);
        async move { deployment::estimate(&control, request).await }.boxed()
    }

    fn plan_import(&self, request: ImportRequest) -> BoxFuture<'static, Result<ImportPlan, ApiError>> {
        let control = Arc::clone(&self.0);
        async move { deployment::plan_import(&control, request).await }.boxed()
    }

    fn import(
        &self,
        request: ImportRequest,
        did: AuditEntry,
        then: AfterImport,
    ) -> BoxFuture<'static, Result<ImportJob, ApiError>> {
        let control = Arc::clone(&self.0);
        async move {
            let (job, done) = deployment::import(&control, request, did, then).await?;
            // The sender is dropped without a result only when the gateway ends.
            let done = async {
                done.await.unwrap_or_else(|_| {
                    Err(ApiError::new(ErrorCode::ShuttingDown, "the gateway is stopping"))
                })
            };
            Ok(ImportJob { job, done: done.boxed() })
        }
        .boxed()
    }

    fn restore(&self, request: RestoreRequest, did: AuditEntry) -> BoxFuture<'static, Result<Job, ApiError>> {
        let control = Arc::clone(&self.0);
        async move { deployment::restore(&control, request, did).await }.boxed()
    }

    fn cancel(&self, id: JobId) -> bool {
        self.0.jobs.cancel(id)
    }
}
