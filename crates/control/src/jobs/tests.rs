//! Jobs on a real database.

use gantry_domain::ErrorCode;
use serde_json::json;
use tempfile::TempDir;

use super::*;

struct Gateway {
    jobs: Arc<Jobs>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn store(dir: &TempDir) -> Store {
    let url = format!("sqlite://{}", dir.path().join("g.db").display());
    Store::open(&url).await.unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the Supervisor is the server's")]
fn start(store: &Store) -> Gateway {
    let jobs = Jobs::new(store.clone(), Clock::default(), "here".to_owned());
    let stop = CancellationToken::new();
    let task = tokio::spawn(run(Arc::clone(&jobs), stop.clone()));
    Gateway { jobs, stop, task }
}

impl Gateway {
    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn records(store: &Store) -> Vec<Job> {
    store.read().await.unwrap().jobs(10).await.unwrap()
}

#[tokio::test]
async fn a_job_reports_and_ends_with_its_work() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir).await;
    let gateway = start(&store);
    let mut updates = gateway.jobs.updates();
    let (go, went) = oneshot::channel::<()>();
    let work = |handle: JobHandle| async move {
        handle.set_total(10);
        handle.step("reads");
        handle.done_bytes().store(4, Relaxed);
        let _ = went.await;
        handle.done_bytes().store(10, Relaxed);
        Ok(7)
    };
    let (_, result) = gateway.jobs.start(JobKind::ImageLoad, "a.tar", work).await.unwrap();
    let first = updates.recv().await.unwrap();
    assert_eq!((first.state, first.progress.total_bytes), (JobState::Running, Some(10)));
    assert_eq!((first.progress.step.as_str(), first.progress.done_bytes), ("reads", 4));
    go.send(()).unwrap();
    assert_eq!(result.await.unwrap().unwrap(), 7);
    let last = loop {
        let update = updates.recv().await.unwrap();
        if update.state.is_final() {
            break update;
        }
    };
    assert_eq!((last.state, last.progress.done_bytes), (JobState::Completed, 10));
    let record = records(&store).await.remove(0);
    assert_eq!(
        (record.state, record.log, record.error),
        (JobState::Completed, vec!["reads".to_owned()], None)
    );
    assert_eq!(record.finished_at, last.finished_at);

    let failed = gateway.jobs.start(JobKind::ImageLoad, "b.tar", |_| async {
        Err::<(), _>(ApiError::new(ErrorCode::InvalidState, "no space left"))
    });
    assert!(failed.await.unwrap().1.await.unwrap().is_err());
    let record = records(&store).await.remove(0);
    assert_eq!((record.state, record.error.as_deref()), (JobState::Failed, Some("no space left")));
    gateway.end().await;
}

#[tokio::test]
async fn a_job_goes_on_when_nobody_waits_and_ends_soon_when_it_is_cancelled() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir).await;
    let gateway = start(&store);
    let mut updates = gateway.jobs.updates();
    let hangs = |_| std::future::pending::<Result<(), ApiError>>();
    drop(gateway.jobs.start(JobKind::ImageLoad, "a.tar", hangs).await.unwrap());
    let id = updates.recv().await.unwrap().id;
    let begun = tokio::time::Instant::now();
    assert!(gateway.jobs.cancel(id));
    let last = updates.recv().await.unwrap();
    assert_eq!((last.id, last.state), (id, JobState::Cancelled));
    assert!(begun.elapsed() >= GRACE, "it had time to put things in order");
    assert_eq!(records(&store).await[0].state, JobState::Cancelled);
    assert!(!gateway.jobs.cancel(id), "it has ended");

    // Work that listens ends at once.
    let listens = |handle: JobHandle| async move {
        handle.cancelled().await;
        Err::<(), _>(ApiError::internal())
    };
    let (_, result) = gateway.jobs.start(JobKind::ImageLoad, "b.tar", listens).await.unwrap();
    let id = records(&store).await[0].id;
    assert!(gateway.jobs.cancel(id));
    assert!(result.await.unwrap().is_err());
    assert_eq!(records(&store).await[0].state, JobState::Cancelled);
    gateway.end().await;
}

#[tokio::test]
async fn a_job_that_ended_its_record_itself_is_not_cancelled_afterwards() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir).await;
    let gateway = start(&store);
    let mut updates = gateway.jobs.updates();
    let own = store.clone();
    let (committed, has_committed) = oneshot::channel();
    let ends = |handle: JobHandle| async move {
        let mut tx = own.write().await.unwrap();
        handle.made(json!({ "rows": 1 }));
        assert!(tx.end_job(&handle.completed(Timestamp(7))).await.unwrap());
        tx.commit().await.unwrap();
        committed.send(()).unwrap();
        handle.cancelled().await;
        Err::<(), _>(ApiError::internal())
    };
    let (job, result) = gateway.jobs.start(JobKind::DbRestore, "p", ends).await.unwrap();
    has_committed.await.unwrap();
    assert!(gateway.jobs.cancel(job.id));
    assert!(result.await.unwrap().is_err());
    let record = records(&store).await.remove(0);
    assert_eq!((record.state, record.finished_at), (JobState::Completed, Some(Timestamp(7))));
    assert_eq!(record.artifacts, Some(json!({ "rows": 1 })));
    let mut last = None;
    while let Ok(update) = updates.try_recv() {
        last = Some(update);
    }
    assert_eq!(last, Some(record));
    gateway.end().await;
}

#[tokio::test]
async fn a_job_whose_gateway_ends_or_dies_has_failed() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir).await;
    let gateway = start(&store);
    let hangs = |_| std::future::pending::<Result<(), ApiError>>();
    let (_, result) = gateway.jobs.start(JobKind::ImageLoad, "a.tar", hangs).await.unwrap();
    gateway.end().await;
    assert!(result.await.unwrap().is_err());
    let record = records(&store).await.remove(0);
    assert_eq!((record.state, record.error.as_deref()), (JobState::Failed, Some(INTERRUPTED)));

    let mut tx = store.write().await.unwrap();
    let of = |gateway: &str| NewJob {
        kind: JobKind::ImageLoad,
        object: String::new(),
        gateway: gateway.to_owned(),
    };
    let (own, other) = (of("here"), of("elsewhere"));
    let dead = tx.insert_job(&own, Clock::default().now()).await.unwrap().id;
    let alive = tx.insert_job(&other, Clock::default().now()).await.unwrap().id;
    tx.commit().await.unwrap();
    let gateway = start(&store);
    let state = async |id: JobId| records(&store).await.into_iter().find(|it| it.id == id).unwrap().state;
    while state(dead).await == JobState::Running {
        tokio::task::yield_now().await;
    }
    assert_eq!(state(dead).await, JobState::Failed);
    assert_eq!(state(alive).await, JobState::Running, "another gateway's job");
    gateway.end().await;
}

#[tokio::test]
async fn jobs_that_have_not_begun_when_the_gateway_ends_have_failed() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir).await;
    let jobs = Jobs::new(store.clone(), Clock::default(), "here".to_owned());
    let mut results = Vec::new();
    for _ in 0..8 {
        let hangs = |_| std::future::pending::<Result<(), ApiError>>();
        results.push(jobs.start(JobKind::ImageLoad, "a.tar", hangs).await.unwrap().1);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    run(jobs, stop).await;
    for result in results {
        assert!(result.await.unwrap().is_err());
    }
    assert!(records(&store).await.iter().all(|it| it.state == JobState::Failed));
}
