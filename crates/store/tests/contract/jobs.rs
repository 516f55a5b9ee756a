//! Jobs.

use gantry_domain::{
    JobId, Timestamp,
    job::{Job, JobKind, JobProgress, JobState},
};
use gantry_store::{Constraint, NewJob, StoreError, Tx};
use serde_json::json;

use crate::harness::{Database, NOW, at, on_both};

pub(crate) async fn begin(tx: &mut Tx, gateway: &str) -> JobId {
    let new = NewJob { kind: JobKind::ImageLoad, object: "a\0b.tar".to_owned(), gateway: gateway.to_owned() };
    tx.insert_job(&new, NOW).await.unwrap().id
}

/// Ends a job as it is. Returns whether that was its first end.
pub(crate) async fn end(
    tx: &mut Tx,
    id: JobId,
    state: JobState,
    error: Option<&str>,
    now: Timestamp,
) -> bool {
    let job = tx.job(id).await.unwrap().unwrap();
    tx.end_job(&job.ended(state, error.map(str::to_owned), now)).await.unwrap()
}

on_both! {
    async fn one_deployment_job_runs_at_a_time(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let new = |kind, gateway: &str| NewJob { kind, object: "p".to_owned(), gateway: gateway.to_owned() };
        let image = begin(&mut tx, "one").await;
        let export = tx.insert_job(&new(JobKind::Export, "one"), NOW).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = db.store.write().await.unwrap();
        let second = tx.insert_job(&new(JobKind::DbRestore, "two"), NOW).await.unwrap_err();
        assert!(matches!(second, StoreError::Conflict(Constraint::DeploymentJob)), "{second}");
        drop(tx);
        let mut tx = db.store.write().await.unwrap();
        let (made, list) = (json!({ "path": "p\0" }), tx.deployment_jobs(10).await.unwrap());
        assert_eq!(list.iter().map(|it| it.id).collect::<Vec<_>>(), [export.id]);
        let made_it = Job { artifacts: Some(made.clone()), ..export.clone() };
        assert!(tx.end_job(&made_it.ended(JobState::Completed, None, at(1))).await.unwrap());
        assert_eq!(tx.job(export.id).await.unwrap().unwrap().artifacts, Some(made));
        let next = tx.insert_job(&new(JobKind::DbRestore, "two"), NOW).await.unwrap();
        assert!(next.id > export.id && export.id > image);
    }

    async fn somebody_may_want_a_job_to_end(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let id = begin(&mut tx, "one").await;
        assert!(!tx.is_cancel_wanted(id).await.unwrap());
        assert!(tx.want_cancel(id).await.unwrap());
        assert!(tx.is_cancel_wanted(id).await.unwrap());
        assert!(end(&mut tx, id, JobState::Cancelled, None, at(1)).await);
        assert!(!tx.want_cancel(id).await.unwrap(), "it has ended");
        let none = JobId(99);
        assert!(!tx.want_cancel(none).await.unwrap() && !tx.is_cancel_wanted(none).await.unwrap());
    }

    async fn a_job_is_kept_from_its_beginning_to_its_end(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let id = begin(&mut tx, "one").await;
        let begun = tx.jobs(10).await.unwrap().remove(0);
        assert_eq!((begun.id, begun.kind, begun.state), (id, JobKind::ImageLoad, JobState::Running));
        assert_eq!((begun.object.as_str(), begun.started_at), ("a\u{fffd}b.tar", NOW));
        assert_eq!((begun.progress, begun.finished_at, begun.error), (JobProgress::default(), None, None));
        let progress = JobProgress { step: "reads".to_owned(), done_bytes: 7, total_bytes: Some(9) };
        tx.update_job(id, &progress, &["one".to_owned(), "two\0".to_owned()], at(4)).await.unwrap();
        assert_eq!(tx.job(id).await.unwrap().unwrap().updated_at, at(4));
        assert!(end(&mut tx, id, JobState::Failed, Some("no space\0"), at(5)).await);
        assert!(!end(&mut tx, id, JobState::Completed, None, at(6)).await, "only the first end counts");
        tx.update_job(id, &JobProgress::default(), &[], at(7)).await.unwrap();
        let ended = tx.jobs(10).await.unwrap().remove(0);
        assert_eq!((ended.state, ended.finished_at), (JobState::Failed, Some(at(5))));
        assert_eq!(ended.error.as_deref(), Some("no space\u{fffd}"));
        assert_eq!(ended.progress, progress, "the end is the end");
        assert_eq!(ended.log, ["one", "two\0"], "JSON holds NUL as an escape");
    }

    async fn the_last_hundred_and_those_that_run_are_kept(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let runs = begin(&mut tx, "one").await;
        let mut last = runs;
        for _ in 0..103 {
            last = begin(&mut tx, "two").await;
            end(&mut tx, last, JobState::Cancelled, None, at(1)).await;
        }
        let all = tx.jobs(1000).await.unwrap();
        assert_eq!(all.len(), 102, "what ended after the last one began is deleted by the next one");
        assert_eq!((all[0].id, all.last().unwrap().id), (last, runs));
        assert_eq!(tx.jobs(3).await.unwrap().len(), 3);
        let of = tx.running_jobs("one").await.unwrap();
        assert_eq!(of.iter().map(|it| it.id).collect::<Vec<_>>(), [runs]);
        assert_eq!(tx.running_jobs("two").await.unwrap(), []);
    }
}
