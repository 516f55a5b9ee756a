//! `/admin/deployment`: packages that carry an installation elsewhere, restores of the database, and their jobs.

pub(crate) mod contents;
pub(crate) mod export;
mod folder;
pub(crate) mod import;
pub(crate) mod import_package;
pub(crate) mod manifests;
pub(crate) mod restore;
mod wanted;

use std::time::Duration;

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::request::Parts as RequestParts,
};
use gantry_domain::{
    ApiError, ErrorCode, JobId, Timestamp,
    job::{DEPLOYMENT_PREFIX, Job, JobKind, JobState},
    schema::{Components, Shape, anything, one_of},
    view,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    App,
    app::Parts,
    error::{Outcome, Problem},
    operation::{Listed, Operation, id_text},
};

/// How many jobs the history shows.
const HISTORY: i64 = 20;
/// Time after which a job whose record was not written any more belongs to a gateway that is gone, in milliseconds. A
/// gateway that lives writes it at least every ten seconds.
const GONE_MS: i64 = 60_000;
/// Longest wait for the end of a job that was cancelled.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often its record is read meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

view! {
    /// A deployment job.
    #[derive(Debug)]
    pub(crate) struct DeploymentJob: "DeploymentJob" {
        /// `deploy-<number>`.
        id: String,
        status: &'static str as one_of(&["pending", "running", "completed", "failed", "cancelled"]),
        job_type: JobKind as one_of(&["export", "model_export", "import", "db_restore"]),
        /// What it does just now, for people.
        step: String,
        /// From 0 to 1.
        progress: f64,
        /// Seconds since 1970.
        started_at: f64,
        /// Seconds since 1970; `null` while it runs.
        finished_at: Option<f64>,
        /// Bytes that it will have done at its end, as far as that is known.
        estimated_size_bytes: Option<u64>,
        /// Bytes that are done. What an earlier run left and is taken over counts as well.
        bytes_written: u64,
        /// Seconds that are left, if the rest goes as fast as what is done.
        eta_seconds: Option<u64>,
        /// Why it failed.
        error: Option<String>,
        /// What it did, oldest line first.
        logs: Vec<String>,
        /// What it made: depends on `job_type`.
        artifacts: Option<Value> as anything(),
        /// The package's folder.
        output_dir: String,
    }
}

impl DeploymentJob {
    fn of(app: &App, job: Job) -> Self {
        let now = app.clock.now();
        let seconds = |it: Timestamp| it.0 as f64 / 1000.0;
        let took = Duration::from_millis((now.0 - job.started_at.0).max(0).unsigned_abs());
        let eta = job.progress.eta(took).filter(|_| job.state == JobState::Running);
        Self {
            id: format!("{DEPLOYMENT_PREFIX}{}", job.id),
            status: job.state.as_str(),
            job_type: job.kind,
            progress: if job.state == JobState::Completed { 1.0 } else { job.progress.fraction() },
            step: job.progress.step,
            started_at: seconds(job.started_at),
            finished_at: job.finished_at.map(seconds),
            estimated_size_bytes: job.progress.total_bytes,
            bytes_written: job.progress.done_bytes,
            eta_seconds: eta.map(|it| it.as_secs()),
            error: job.error,
            logs: job.log,
            artifacts: job.artifacts,
            output_dir: job.object,
        }
    }
}

view! {
    /// There was no deployment job yet.
    #[derive(Debug)]
    pub(crate) struct Idle {
        status: &'static str as one_of(&["idle"]),
    }
}

/// The last job, or that there was none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum LastJob {
    Job(Box<DeploymentJob>),
    None(Idle),
}

impl Shape for LastJob {
    fn schema(all: &mut Components) -> Value {
        json!({ "oneOf": [DeploymentJob::schema(all), Idle::schema(all)] })
    }
}

/// The `{id}` of a path: `deploy-<number>`.
pub(crate) struct DeploymentId(JobId);

impl<S: Send + Sync> FromRequestParts<S> for DeploymentId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut RequestParts, state: &S) -> Result<Self, Problem> {
        let text = id_text(parts, state).await?;
        let number = text.strip_prefix(DEPLOYMENT_PREFIX).and_then(|it| it.parse().ok()).filter(|it| *it > 0);
        let unknown =
            || Problem(ApiError::new(ErrorCode::NotFound, "ids of jobs are of the form deploy-<number>"));
        number.map(|it| Self(JobId(it))).ok_or_else(unknown)
    }
}

pub(crate) const STATUS: Operation = Operation::new("getDeploymentStatus", "The deployment job that runs, or the last one")
    .about("`{\"status\":\"idle\"}` if there was none yet. `GET /admin/events` reports the progress of jobs as it is made (`job`).");

pub(crate) async fn status(app: State<App>) -> Outcome<Json<LastJob>> {
    let mut jobs = app.store.read().await?.deployment_jobs(1).await?;
    Ok(Json(match jobs.pop() {
        Some(job) => LastJob::Job(Box::new(DeploymentJob::of(&app, job))),
        None => LastJob::None(Idle { status: "idle" }),
    }))
}

pub(crate) const JOBS: Operation =
    Operation::new("listDeploymentJobs", "The last 20 deployment jobs, newest first");

pub(crate) async fn jobs(app: State<App>) -> Outcome<Listed<DeploymentJob>> {
    let jobs = app.store.read().await?.deployment_jobs(HISTORY).await?;
    let shown: Vec<_> = jobs.into_iter().map(|it| DeploymentJob::of(&app, it)).collect();
    let n = shown.len() as i64;
    Ok(Listed(shown, n))
}

pub(crate) const JOB: Operation = Operation::new("getDeploymentJob", "One deployment job");

pub(crate) async fn job(app: State<App>, DeploymentId(id): DeploymentId) -> Outcome<Json<DeploymentJob>> {
    Ok(Json(DeploymentJob::of(&app, find(&app, id).await?)))
}

async fn find(app: &App, id: JobId) -> Outcome<Job> {
    let job = app.store.read().await?.job(id).await?.filter(|it| it.kind.is_deployment());
    job.ok_or_else(|| Parts::not_found("job", format!("{DEPLOYMENT_PREFIX}{id}")))
}

pub(crate) const CANCEL: Operation = Operation::new("cancelDeploymentJob", "Cancel a deployment job")
    .about(
        "It ends within two seconds, whichever gateway does it, and leaves nothing half-made: an export removes what it wrote, an \
         import has put nothing in place, and a restore leaves the database as it was. A restore that is past the point of no \
         return completes.",
    )
    .errors(&[ErrorCode::NotFound, ErrorCode::InvalidState]);

pub(crate) async fn cancel(app: State<App>, DeploymentId(id): DeploymentId) -> Outcome<Json<DeploymentJob>> {
    let job = find(&app, id).await?;
    if job.state.is_final() {
        return Err(Parts::invalid_state(format!("the job has ended: it is {}", job.state)));
    }
    if !app.deployment.cancel(id) {
        let mut tx = app.store.write().await?;
        if app.clock.now().0 - job.updated_at.0 < GONE_MS {
            // Another gateway does it, and looks for this.
            tx.want_cancel(id).await?;
        } else {
            let why = "interrupted: its gateway has not been heard of for a minute";
            tx.end_job(&job.ended(JobState::Failed, Some(why.to_owned()), app.clock.now())).await?;
        }
        tx.commit().await?;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let job = find(&app, id).await?;
        if job.state.is_final() || Instant::now() >= until {
            return Ok(Json(DeploymentJob::of(&app, job)));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
