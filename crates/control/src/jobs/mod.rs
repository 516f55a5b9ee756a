//! Jobs: work that may take minutes, in the background, with a record in the database.
//!
//! [`Jobs::start`] writes the record and hands the work to the task [`run`]. The work goes on if nobody waits for it any
//! more. It says by its [`JobHandle`] how far it is; that is sent to [`Jobs::updates`] twice a second and stored every
//! second. A job ends once: with its work, [cancelled](Jobs::cancel) within two seconds, or with the gateway. A record that
//! still runs when its gateway starts is of a gateway that died, and is ended then.

pub mod image_load;

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use gantry_domain::{
    ApiError, Clock, JobId, Timestamp,
    job::{Job, JobKind, JobProgress, JobState, MAX_LOG_LINES},
};
use gantry_store::{DatabaseKind, NewJob, Store, StoreError, StoreResult, in_time};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often listeners get the progress of a job; it is stored each second time.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Time that a cancelled job has to put things in order, before its work is dropped.
const GRACE: Duration = Duration::from_millis(1500);
/// A job that does not move has its record written as each 20th report says, so that others see that it lives.
const ALIVE_EVERY: u32 = 20;
/// How often the records of a gateway that died are looked for, until the database answers.
const RETRY: Duration = Duration::from_secs(10);
/// How often the end of a job is stored again while the database is away.
const END_AGAIN: Duration = Duration::from_secs(1);
/// Number of updates that a listener may be behind.
const UPDATES: usize = 256;

/// Why a job failed whose gateway ended first.
const INTERRUPTED: &str = "interrupted: the gateway ended before the job did";

/// A job from its beginning to its end.
type Work = BoxFuture<'static, ()>;

/// The jobs of this gateway.
pub struct Jobs {
    store: Store,
    clock: Clock,
    /// The name of this gateway in records.
    gateway: String,
    running: Mutex<HashMap<JobId, JobHandle>>,
    work: mpsc::UnboundedSender<Work>,
    /// The other end of `work`, until [`run`] takes it.
    waiting: Mutex<Option<mpsc::UnboundedReceiver<Work>>>,
    updates: broadcast::Sender<Job>,
    /// Whether the gateway ends: jobs are interrupted then, and not cancelled.
    ending: AtomicBool,
}

/// By which the work of a job says how far it is, and notices that it is to end.
#[derive(Clone)]
pub struct JobHandle(Arc<Live>);

struct Live {
    /// The record as it was at the beginning.
    job: Job,
    done_bytes: Arc<AtomicU64>,
    notes: Mutex<Notes>,
    changed: AtomicBool,
    cancel: CancellationToken,
}

#[derive(Default)]
struct Notes {
    step: String,
    total_bytes: Option<u64>,
    log: Vec<String>,
    artifacts: Option<Value>,
}

impl JobHandle {
    fn new(job: Job) -> Self {
        Self(Arc::new(Live {
            job,
            done_bytes: Arc::default(),
            notes: Mutex::default(),
            changed: AtomicBool::new(true),
            cancel: CancellationToken::new(),
        }))
    }

    /// Returns the counter of the bytes that are done, for the work to count up.
    pub fn done_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.done_bytes)
    }

    /// Says how many bytes there are.
    pub fn set_total(&self, bytes: u64) {
        self.note(|notes| notes.total_bytes = Some(bytes));
    }

    /// Says what is done from now on, for people; it is a line of the log, too.
    pub fn step(&self, step: impl Into<String>) {
        let step = step.into();
        self.log(step.clone());
        self.note(|notes| notes.step = step);
    }

    /// Adds a line to the log.
    pub fn log(&self, line: impl Into<String>) {
        self.note(|notes| {
            notes.log.push(line.into());
            let more = notes.log.len().saturating_sub(MAX_LOG_LINES);
            notes.log.drain(..more);
        });
    }

    /// Says what the job made. It is stored if the job ends well.
    pub fn made(&self, artifacts: Value) {
        self.note(|notes| notes.artifacts = Some(artifacts));
    }

    /// Returns the record as it would be if the job completed now, for work that ends its record together with the rest
    /// of what it stores.
    pub fn completed(&self, now: Timestamp) -> Job {
        self.snapshot().ended(JobState::Completed, None, now)
    }

    /// Returns the id of the job.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// Whether the job is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Waits until the job is to end. Work that leaves things behind ends by itself then; other work is dropped.
    pub async fn cancelled(&self) {
        self.0.cancel.cancelled().await;
    }

    fn note(&self, change: impl FnOnce(&mut Notes)) {
        change(&mut self.0.notes.lock());
        self.0.changed.store(true, Release);
    }

    /// Returns the record as it would be now.
    fn snapshot(&self) -> Job {
        let notes = self.0.notes.lock();
        Job {
            progress: JobProgress {
                step: notes.step.clone(),
                done_bytes: self.0.done_bytes.load(Relaxed),
                total_bytes: notes.total_bytes,
            },
            log: notes.log.clone(),
            artifacts: notes.artifacts.clone(),
            ..self.0.job.clone()
        }
    }
}

impl Jobs {
    /// Returns the jobs of `gateway`. They are worked on while [`run`] runs.
    pub fn new(store: Store, clock: Clock, gateway: String) -> Arc<Self> {
        let (work, waiting) = mpsc::unbounded_channel();
        Arc::new(Self {
            store,
            clock,
            gateway,
            running: Mutex::default(),
            work,
            waiting: Mutex::new(Some(waiting)),
            updates: broadcast::channel(UPDATES).0,
            ending: AtomicBool::new(false),
        })
    }

    /// Returns the records of jobs as they change. The last one of a job has its end.
    pub fn updates(&self) -> broadcast::Receiver<Job> {
        self.updates.subscribe()
    }

    /// Records a job and begins it. Its result comes from the receiver; the job goes on without it.
    ///
    /// # Errors
    /// It can't be recorded, and does not begin.
    pub async fn start<T, F>(
        self: &Arc<Self>,
        kind: JobKind,
        object: &str,
        work: impl FnOnce(JobHandle) -> F,
    ) -> StoreResult<(Job, oneshot::Receiver<Result<T, ApiError>>)>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        let new = NewJob { kind, object: object.to_owned(), gateway: self.gateway.clone() };
        let mut tx = self.store.write().await?;
        let job = tx.insert_job(&new, self.clock.now()).await?;
        let (id, handle) = (job.id, JobHandle::new(job.clone()));
        // Before others can see the record: one that runs and that nobody works on counts as interrupted.
        self.running.lock().insert(id, handle.clone());
        if let Err(error) = tx.commit().await {
            self.running.lock().remove(&id);
            return Err(error);
        }
        let (done, result) = oneshot::channel();
        let (jobs, work) = (Arc::clone(self), work(handle.clone()));
        let whole = async move {
            let result = jobs.drive(&handle, work).await;
            jobs.end(&handle, result.as_ref().err()).await;
            // Nobody may be waiting.
            let _ = done.send(result);
        };
        // The other end is gone only when the gateway ends; then the record is ended at the next start.
        let _ = self.work.send(Box::pin(whole));
        Ok((job, result))
    }

    /// Cancels a job of this gateway; it ends within two seconds. Returns `false` if it does not run here: then
    /// [`gantry_store::Tx::want_cancel`] tells the gateway that does it.
    pub fn cancel(&self, id: JobId) -> bool {
        let handle = self.running.lock().get(&id).cloned();
        handle.inspect(|it| it.0.cancel.cancel()).is_some()
    }

    async fn drive<T>(
        &self,
        handle: &JobHandle,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let (mut work, mut reports) = (pin!(work), pin!(self.report(handle)));
        let out_of_time = async {
            handle.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let mut out_of_time = pin!(out_of_time);
        tokio::select! {
            result = &mut work => result,
            () = &mut reports => Err(ApiError::internal()),
            () = &mut out_of_time => Err(ApiError::internal()),
        }
    }

    /// Says how far a job is, for as long as it is polled.
    async fn report(&self, handle: &JobHandle) {
        let mut tick = tokio::time::interval(REPORT_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut told, mut n) = (u64::MAX, 0_u32);
        loop {
            tick.tick().await;
            let job = handle.snapshot();
            let moved = std::mem::replace(&mut told, job.progress.done_bytes) != job.progress.done_bytes;
            if handle.0.changed.swap(false, AcqRel) || moved {
                // Nobody may be listening.
                let _ = self.updates.send(job.clone());
            }
            self.follow_wish(handle).await;
            if n % 2 == 1 && (moved || n % ALIVE_EVERY == 1) {
                note(in_time(self.store_progress(&job)).await, "the progress of a job could not be stored");
            }
            n = n.wrapping_add(1);
        }
    }

    /// Cancels a job that somebody wants to end by another gateway. Those share a Postgres.
    async fn follow_wish(&self, handle: &JobHandle) {
        if self.store.kind() == DatabaseKind::Sqlite || handle.is_cancelled() {
            return;
        }
        let id = handle.id();
        let read = in_time(async { self.store.read_quick().await?.is_cancel_wanted(id).await }).await;
        // A database that is away has no wishes; the storing of the progress reports it.
        if read.unwrap_or(false) {
            handle.0.cancel.cancel();
        }
    }

    async fn store_progress(&self, job: &Job) -> StoreResult<()> {
        let mut tx = self.store.write().await?;
        tx.update_job(job.id, &job.progress, &job.log, self.clock.now()).await?;
        tx.commit().await
    }

    /// Ends the record of a job, and sends it to listeners.
    async fn end(&self, handle: &JobHandle, error: Option<&ApiError>) {
        let (state, error) = match error {
            None => (JobState::Completed, None),
            Some(_) if self.ending.load(Acquire) => (JobState::Failed, Some(INTERRUPTED.to_owned())),
            Some(_) if handle.0.cancel.is_cancelled() => (JobState::Cancelled, None),
            Some(error) => (JobState::Failed, Some(error.message.clone())),
        };
        let mut job = handle.snapshot().ended(state, error, self.clock.now());
        loop {
            let stored = in_time(self.store_end(&mut job)).await;
            let again = stored.as_ref().is_err_and(StoreError::is_unavailable);
            note(stored, "the end of a job could not be stored");
            // Until it is stored, the record says that the job runs. The next start ends the records of this one.
            if !again || self.ending.load(Acquire) {
                break;
            }
            tokio::time::sleep(END_AGAIN).await;
        }
        self.running.lock().remove(&job.id);
        let _ = self.updates.send(job);
    }

    /// Stores the end of a job, or takes over the end that its record has already: the work may have ended it, and may have been
    /// cancelled a moment later.
    async fn store_end(&self, job: &mut Job) -> StoreResult<()> {
        let mut tx = self.store.write().await?;
        if !tx.end_job(job).await?
            && let Some(before) = tx.job(job.id).await?
        {
            *job = before;
        }
        tx.commit().await
    }

    /// Ends the records of this gateway that run although nobody works on them, because it died.
    async fn end_interrupted(&self) -> StoreResult<()> {
        let mut tx = self.store.write().await?;
        for job in tx.running_jobs(&self.gateway).await? {
            if !self.running.lock().contains_key(&job.id) {
                let why = Some(INTERRUPTED.to_owned());
                tx.end_job(&job.ended(JobState::Failed, why, self.clock.now())).await?;
            }
        }
        tx.commit().await
    }
}

/// Says to a caller that the database did not do what it was asked.
pub(crate) fn unstored(error: &StoreError) -> ApiError {
    if let Some(refusal) = error.refusal() {
        return refusal;
    }
    tracing::error!(error = error as &dyn std::error::Error, "a database operation failed");
    ApiError::internal()
}

fn note(result: StoreResult<()>, what: &str) {
    if let Err(error) = result {
        warn!(error = &error as &dyn std::error::Error, "{what}");
    }
}

/// Does the work of all jobs until `stop`, which interrupts those that still run. Called once.
pub async fn run(jobs: Arc<Jobs>, stop: CancellationToken) {
    let Some(mut waiting) = jobs.waiting.lock().take() else { return };
    let mut work = FuturesUnordered::new();
    {
        // Polled beside the work: it waits for the writer of the database, which the work may hold.
        let mut recovery = pin!(recover(&jobs));
        let mut recovered = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(next) = waiting.recv() => work.push(next),
                Some(()) = work.next(), if !work.is_empty() => {}
                () = &mut recovery, if !recovered => recovered = true,
            }
        }
    }
    jobs.ending.store(true, Release);
    // Jobs that were recorded and not begun yet must have an end, too.
    waiting.close();
    while let Some(next) = waiting.recv().await {
        work.push(next);
    }
    for handle in jobs.running.lock().values() {
        handle.0.cancel.cancel();
    }
    while work.next().await.is_some() {}
}

/// Ends the records of jobs that this gateway's predecessor left running, as soon as the database lets it.
async fn recover(jobs: &Jobs) {
    let mut retry = tokio::time::interval(RETRY);
    loop {
        retry.tick().await;
        let done = in_time(jobs.end_interrupted()).await;
        let recovered = done.is_ok();
        note(done, "jobs that were interrupted could not be ended");
        if recovered {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
