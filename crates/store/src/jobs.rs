//! Jobs: work that may take minutes.

use gantry_domain::{
    JobId, Timestamp,
    job::{Job, JobKind, JobProgress, JobState},
};

use crate::{
    StoreError, StoreResult, Tx,
    page::clean,
    tx::{Conn, on_conn, on_db, row},
};

/// Most jobs that are kept after their end.
const KEPT: i64 = 100;

/// A job that is about to begin.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub kind: JobKind,
    /// What it works on, such as the path of a file.
    pub object: String,
    /// The gateway that does it.
    pub gateway: String,
}

row! {
    struct JobRow {
        id: i64,
        kind: String,
        object: String,
        gateway: String,
        state: String,
        step: String,
        done_bytes: i64,
        total_bytes: Option<i64>,
        started_at: i64,
        finished_at: Option<i64>,
        error: Option<String>,
        log: String,
        artifacts: Option<String>,
        updated_at: i64,
    }
}

/// The columns of [`JobRow`].
macro_rules! columns {
    () => {
        "id, kind, object, gateway, state, step, done_bytes, total_bytes, started_at, finished_at, error, log, \
         artifacts, updated_at"
    };
}

impl TryFrom<JobRow> for Job {
    type Error = StoreError;

    fn try_from(row: JobRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "jobs", id: row.id.to_string(), what };
        Ok(Self {
            id: JobId(row.id),
            kind: JobKind::parse(&row.kind).ok_or_else(|| corrupt("kind"))?,
            state: JobState::parse(&row.state).ok_or_else(|| corrupt("state"))?,
            log: serde_json::from_str(&row.log).map_err(|_| corrupt("log"))?,
            progress: JobProgress {
                step: row.step,
                done_bytes: row.done_bytes.unsigned_abs(),
                total_bytes: row.total_bytes.map(i64::unsigned_abs),
            },
            object: row.object,
            gateway: row.gateway,
            started_at: Timestamp(row.started_at),
            finished_at: row.finished_at.map(Timestamp),
            error: row.error,
            artifacts: row
                .artifacts
                .as_deref()
                .map(serde_json::from_str)
                .transpose()
                .map_err(|_| corrupt("artifacts"))?,
            updated_at: Timestamp(row.updated_at),
        })
    }
}

fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Stores the whole record of a job that ends. Only the first end counts: `false` if the job has ended before.
pub(crate) async fn end_with(conn: &mut Conn<'_>, job: &Job) -> StoreResult<bool> {
    const SQL: &str = "UPDATE jobs SET state = $2, error = $3, finished_at = $4, updated_at = $5, artifacts = $6, \
                       step = $7, done_bytes = $8, total_bytes = $9, log = $10 WHERE id = $1 AND state = 'running'";
    let rows = on_conn!(conn, |conn| {
        sqlx::query(SQL)
            .bind(job.id.0)
            .bind(job.state.as_str())
            .bind(job.error.as_deref().map(clean))
            .bind(job.finished_at.map(|it| it.0))
            .bind(job.updated_at.0)
            .bind(job.artifacts.as_ref().map(ToString::to_string))
            .bind(clean(&job.progress.step))
            .bind(bytes(job.progress.done_bytes))
            .bind(job.progress.total_bytes.map(bytes))
            .bind(clean(&serde_json::json!(job.log).to_string()))
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
    })?;
    Ok(rows > 0)
}

impl Tx {
    /// Adds a job that runs. Jobs that ended long ago, beyond the last 100, are deleted.
    ///
    /// # Errors
    /// [`Constraint::DeploymentJob`](crate::Constraint::DeploymentJob) if it is a deployment job and one runs.
    pub async fn insert_job(&mut self, new: &NewJob, now: Timestamp) -> StoreResult<Job> {
        const OLD: &str = "DELETE FROM jobs WHERE state <> 'running' AND id NOT IN \
                           (SELECT id FROM jobs WHERE state <> 'running' ORDER BY id DESC LIMIT $1)";
        const SQL: &str = concat!(
            "INSERT INTO jobs (kind, object, gateway, state, started_at, updated_at) \
             VALUES ($1, $2, $3, 'running', $4, $4) RETURNING ",
            columns!()
        );
        on_db!(self, |conn| sqlx::query(OLD).bind(KEPT).execute(conn).await.map(drop))?;
        let row: JobRow = on_db!(self, |conn| {
            sqlx::query_as(SQL)
                .bind(new.kind.as_str())
                .bind(clean(&new.object))
                .bind(new.gateway.as_str())
                .bind(now.0)
                .fetch_one(conn)
                .await
        })?;
        row.try_into()
    }

    /// Stores how far a job is. A job that has ended stays as it is.
    pub async fn update_job(
        &mut self,
        id: JobId,
        progress: &JobProgress,
        log: &[String],
        now: Timestamp,
    ) -> StoreResult<()> {
        const SQL: &str = "UPDATE jobs SET step = $2, done_bytes = $3, total_bytes = $4, log = $5, updated_at = $6 \
                           WHERE id = $1 AND state = 'running'";
        on_db!(self, |conn| {
            sqlx::query(SQL)
                .bind(id.0)
                .bind(clean(&progress.step))
                .bind(bytes(progress.done_bytes))
                .bind(progress.total_bytes.map(bytes))
                .bind(clean(&serde_json::json!(log).to_string()))
                .bind(now.0)
                .execute(conn)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Ends a job with this record. Only the first end counts: `false` if the job has ended before.
    pub async fn end_job(&mut self, job: &Job) -> StoreResult<bool> {
        on_db!(self, |conn| end_with(&mut conn.into(), job).await)
    }

    /// Asks the gateway that does a job to cancel it. Returns `false` if the job has ended.
    pub async fn want_cancel(&mut self, id: JobId) -> StoreResult<bool> {
        const SQL: &str = "UPDATE jobs SET cancel_wanted = TRUE WHERE id = $1 AND state = 'running'";
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(id.0).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Returns whether somebody asked for the end of a job by [`Self::want_cancel`].
    pub async fn is_cancel_wanted(&mut self, id: JobId) -> StoreResult<bool> {
        const SQL: &str = "SELECT cancel_wanted FROM jobs WHERE id = $1";
        let wanted: Option<bool> =
            on_db!(self, |conn| sqlx::query_scalar(SQL).bind(id.0).fetch_optional(conn).await)?;
        Ok(wanted.unwrap_or(false))
    }

    /// Returns a job.
    pub async fn job(&mut self, id: JobId) -> StoreResult<Option<Job>> {
        const SQL: &str = concat!("SELECT ", columns!(), " FROM jobs WHERE id = $1");
        let row: Option<JobRow> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(id.0).fetch_optional(conn).await)?;
        row.map(Job::try_from).transpose()
    }

    /// Returns the last deployment jobs, newest first.
    pub async fn deployment_jobs(&mut self, limit: i64) -> StoreResult<Vec<Job>> {
        const SQL: &str =
            concat!("SELECT ", columns!(), " FROM jobs WHERE kind <> 'image_load' ORDER BY id DESC LIMIT $1");
        let rows: Vec<JobRow> = on_db!(self, |conn| sqlx::query_as(SQL).bind(limit).fetch_all(conn).await)?;
        rows.into_iter().map(Job::try_from).collect()
    }

    /// Returns the last jobs, newest first.
    pub async fn jobs(&mut self, limit: i64) -> StoreResult<Vec<Job>> {
        const SQL: &str = concat!("SELECT ", columns!(), " FROM jobs ORDER BY id DESC LIMIT $1");
        let rows: Vec<JobRow> = on_db!(self, |conn| sqlx::query_as(SQL).bind(limit).fetch_all(conn).await)?;
        rows.into_iter().map(Job::try_from).collect()
    }

    /// Returns the jobs of a gateway that run by their records.
    pub async fn running_jobs(&mut self, gateway: &str) -> StoreResult<Vec<Job>> {
        const SQL: &str =
            concat!("SELECT ", columns!(), " FROM jobs WHERE state = 'running' AND gateway = $1 ORDER BY id");
        let rows: Vec<JobRow> = on_db!(self, |conn| sqlx::query_as(SQL).bind(gateway).fetch_all(conn).await)?;
        rows.into_iter().map(Job::try_from).collect()
    }
}
