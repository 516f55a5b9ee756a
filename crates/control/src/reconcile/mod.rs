//! Brings containers in line with records: one [`worker`] for each model, so that actions on a model never interleave
//! and a hung engine delays no other. Level-triggered: hints only make it look sooner.

mod start;
mod worker;

use std::{collections::HashMap, sync::Arc};

use futures_util::{StreamExt, stream::BoxStream};
use gantry_domain::ModelId;
use gantry_store::StoreResult;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::Control;

/// Runs until `stop`; containers go on without us.
pub async fn run(control: Arc<Control>, mut hints: mpsc::Receiver<ModelId>, stop: CancellationToken) {
    let mut crew = Crew { control, workers: HashMap::new(), running: JoinSet::new(), stop: stop.clone() };
    let mut tick = tokio::time::interval(crew.control.config.reconcile_every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut events: Option<BoxStream<'static, ModelId>> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = tick.tick() => {
                if events.is_none() {
                    events = crew.control.runtime.events().await.ok();
                }
                crew.look_at_all().await;
            }
            hint = hints.recv() => match hint {
                Some(id) => crew.look_at(id).await,
                None => break,
            },
            event = next(&mut events) => match event {
                Some(id) => crew.look_at(id).await,
                // The next tick connects again.
                None => events = None,
            },
            Some(ended) = crew.running.join_next() => crew.ended(ended),
        }
    }
    // A worker ends after the step it is at.
    while let Some(ended) = crew.running.join_next().await {
        crew.ended(ended);
    }
}

async fn next(events: &mut Option<BoxStream<'static, ModelId>>) -> Option<ModelId> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

struct Crew {
    control: Arc<Control>,
    workers: HashMap<ModelId, Arc<Notify>>,
    running: JoinSet<ModelId>,
    stop: CancellationToken,
}

impl Crew {
    async fn look_at_all(&mut self) {
        match self.ids().await {
            Ok(ids) => {
                for id in ids {
                    self.wake(id);
                }
            }
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "models could not be read; the next tick retries"
                );
            }
        }
    }

    async fn ids(&self) -> StoreResult<Vec<ModelId>> {
        let rows = self.control.store.read().await?.models_for_reconcile().await?;
        Ok(rows.into_iter().map(|(model, _)| model.id).collect())
    }

    /// Wakes the model's worker; a model without one is looked up first, since events may speak of deleted ones.
    async fn look_at(&mut self, id: ModelId) {
        if self.workers.contains_key(&id) || self.ids().await.is_ok_and(|ids| ids.contains(&id)) {
            self.wake(id);
        }
    }

    fn wake(&mut self, id: ModelId) {
        let wake = self.workers.entry(id).or_insert_with(|| {
            debug!(model = id.0, "worker begins");
            let wake = Arc::new(Notify::new());
            let worker =
                worker::Worker::new(id, Arc::clone(&self.control), Arc::clone(&wake), self.stop.clone());
            self.running.spawn(worker.run());
            wake
        });
        wake.notify_one();
    }

    fn ended(&mut self, ended: Result<ModelId, tokio::task::JoinError>) {
        match ended {
            Ok(id) => {
                debug!(model = id.0, "worker ends");
                self.workers.remove(&id);
            }
            Err(error) => {
                // Which one it was is unknown: all that are left are found again at the next tick.
                error!(%error, "a model's worker panicked");
                if self.running.is_empty() {
                    self.workers.clear();
                } else {
                    self.running.abort_all();
                    self.workers.clear();
                }
            }
        }
    }
}
