//! Brings containers in line with records. There is one [`worker`] for each model, so that actions on a model never
//! interleave and a hung engine delays no other. It is level-triggered: a tick looks at all containers and records with
//! one query each and hands every worker what concerns it; container events and API calls only make a worker look
//! sooner.

#[cfg(test)]
mod crew_tests;
mod mailbox;
mod orphans;
#[cfg(test)]
mod simulation;
mod start;
mod worker;

pub use worker::note_stopped;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::BoxStream};
use gantry_domain::ModelId;
use gantry_runtime::{Found, RuntimeResult};
use gantry_store::{Decoded, LastRestore, ModelToReconcile, StoreError, StoreResult, in_time};
use tokio::{
    sync::mpsc,
    task::{self, JoinSet},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use self::mailbox::{Mailbox, Sighting};
use crate::Control;

/// How often all containers are looked at while the container runtime sends no events.
const UNTOLD: Duration = Duration::from_secs(5);

/// Runs until `stop`; containers keep running after that. Only the gateway that supervises calls this, see
/// [`crate::supervise`].
pub(crate) async fn run(control: Arc<Control>, hints: &mut mpsc::Receiver<ModelId>, stop: CancellationToken) {
    let mut crew = Crew {
        control,
        workers: HashMap::new(),
        names: HashMap::new(),
        running: JoinSet::new(),
        ending: orphans::Ending::default(),
        restored: None,
        stop: stop.clone(),
    };
    let mut tick = tokio::time::interval(crew.control.config.supervision.model_reconcile_sec);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut restores = crew.control.restores.subscribe();
    crew.restored = crew.last_restore().await.ok();
    let mut events: Option<BoxStream<'static, ModelId>> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = tick.tick() => {
                if events.is_none() {
                    events = crew.control.runtime.events().await.ok();
                }
                crew.check_all().await;
                if events.is_none() {
                    tick.reset_after(UNTOLD.min(crew.control.config.supervision.model_reconcile_sec));
                }
            }
            hint = hints.recv() => match hint {
                Some(id) => crew.check(id).await,
                None => break,
            },
            () = crew.control.changed_elsewhere.notified() => crew.check_elsewhere().await,
            Ok(()) = restores.changed() => crew.check_all().await,
            event = next(&mut events) => if let Some(id) = event {
                crew.check(id).await;
            } else {
                // The next tick connects again.
                events = None;
                tick.reset_after(UNTOLD.min(crew.control.config.supervision.model_reconcile_sec));
            },
            Some(ended) = crew.running.join_next_with_id() => crew.ended(ended),
        }
    }
    // Each worker ends after its current step.
    while let Some(ended) = crew.running.join_next_with_id().await {
        crew.ended(ended);
    }
    crew.control.runtime_status.forget_given_up();
}

async fn next(events: &mut Option<BoxStream<'static, ModelId>>) -> Option<ModelId> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

struct Crew {
    control: Arc<Control>,
    workers: HashMap<ModelId, Arc<Mailbox>>,
    /// The model of each worker's task.
    names: HashMap<task::Id, ModelId>,
    running: JoinSet<()>,
    ending: orphans::Ending,
    /// The last restore of the database, as it was read last.
    restored: Option<LastRestore>,
    stop: CancellationToken,
}

impl Crew {
    async fn check_all(&mut self) {
        let at = Instant::now();
        // Containers are listed first. Records are made before containers, so a container whose record is missing
        // afterwards has none.
        let containers = self.control.runtime.list().await;
        let records = match self.records().await {
            Ok(records) => records,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "models could not be read; the next tick retries");
                return;
            }
        };
        let mut containers = by_name(containers);
        let (models, seen) = (records.rows.len(), containers.as_ref().map(HashMap::len));
        // A record that can't be read (the publisher reports it) still counts as a record: its container is left as it
        // is.
        for id in records.bad.iter().filter_map(StoreError::row) {
            if let Some(all) = &mut containers {
                all.retain(|_, it| it.model_id.to_string() != id);
            }
        }
        for record in records.rows {
            let id = record.model.id;
            // Without the list each worker asks for itself, and gets the error.
            let sighting = containers.as_mut().map(|all| {
                let found = all.remove(&record.model.instance_name());
                Sighting { at, record, found }
            });
            self.wake(id, sighting);
        }
        let ms = at.elapsed().as_millis();
        debug!(models, containers = ?seen, ms, "looked at all");
        let left = containers.map(|it| self.ending.take(it.into_values())).unwrap_or_default();
        if !left.is_empty() {
            // This is not awaited: a container may take its whole grace to end.
            let (control, ending) = (Arc::clone(&self.control), self.ending.clone());
            self.running.spawn(async move { orphans::stop(&control, &ending, left).await });
        }
    }

    async fn records(&self) -> StoreResult<Decoded<ModelToReconcile>> {
        in_time(async { self.control.store.read().await?.models_for_reconcile().await }).await
    }

    async fn last_restore(&self) -> StoreResult<LastRestore> {
        in_time(async { self.control.store.read().await?.last_restore().await }).await
    }

    /// Looks at what another gateway may have changed: wakes the workers of models that have a command which was not carried
    /// out yet, and looks at all if the database was restored.
    async fn check_elsewhere(&mut self) {
        if let Ok(restored) = self.last_restore().await
            && self.restored.replace(restored.clone()).is_some_and(|before| before != restored)
        {
            return self.check_all().await;
        }
        // If they can't be read, the next tick retries.
        for it in self.records().await.into_iter().flat_map(|it| it.rows) {
            if it.deleting || it.model.phase.generation() != it.model.generation {
                self.wake(it.model.id, None);
            }
        }
    }

    /// Wakes the model's worker; a model without one is looked up first, since events may speak of deleted ones.
    async fn check(&mut self, id: ModelId) {
        let known = |records: Decoded<ModelToReconcile>| records.rows.iter().any(|it| it.model.id == id);
        if self.workers.contains_key(&id) || self.records().await.is_ok_and(known) {
            self.wake(id, None);
        }
    }

    fn wake(&mut self, id: ModelId, sighting: Option<Sighting>) {
        if let Some(mailbox) = self.workers.get(&id) {
            mailbox.put(sighting);
            return;
        }
        debug!(model = id.0, "worker begins");
        let mailbox = Arc::new(Mailbox::default());
        // Put in before the worker begins, so that its first look is this one.
        mailbox.put(sighting);
        let worker =
            worker::Worker::new(id, Arc::clone(&self.control), Arc::clone(&mailbox), self.stop.clone());
        let task = self.running.spawn(worker.run());
        self.names.insert(task.id(), id);
        self.workers.insert(id, mailbox);
    }

    fn ended(&mut self, ended: Result<(task::Id, ()), task::JoinError>) {
        let task = match ended {
            Ok((task, ())) => task,
            Err(error) => {
                error!(%error, "a model's worker panicked; the next tick makes another");
                error.id()
            }
        };
        if let Some(id) = self.names.remove(&task) {
            debug!(model = id.0, "worker ends");
            self.workers.remove(&id);
        }
    }
}

fn by_name(found: RuntimeResult<Vec<Found>>) -> Option<HashMap<String, Found>> {
    Some(found.ok()?.into_iter().map(|it| (it.name.clone(), it)).collect())
}
