//! Builds the data plane's catalog from the database and swaps it in. What requests hold on to (key states, engines
//! with their breakers) is carried over.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use gantry_dataplane::{Catalog, Upstream, breaker};
use gantry_domain::{
    ModelId, Timestamp,
    model::{Model, lifecycle::InstanceId},
};
use gantry_runtime::Gate;
use gantry_store::{RegistryEntry, StoreError, StoreResult, Supervisor, Tx, in_time};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tracing::error;

pub use self::task::{Requests, run};
use self::{
    callers::{Callers, enter},
    routes::{adapter_route, managed_route, manual_route},
    targets::{Known, Targets, UpstreamFactory},
};
use crate::Control;

mod callers;
mod routes;
mod targets;
mod task;

/// If the catalog can't be read for longer than this, the failure is reported: keys that were revoked since still work.
const TELL_AFTER: Duration = Duration::from_secs(10);
/// Most workers that write at the same time. Each of them waits with a connection in hand until its catalog's turn
/// comes. If all models that change at once did so, no connection would be left for anything else, and requests for one
/// would fail.
const WRITERS: usize = 4;

/// Makes catalogs. Remembers the engines that the current one leads to.
pub struct Publisher {
    upstreams: UpstreamFactory,
    known: Mutex<Known>,
    /// Number of publications that were asked for, and how many of them the last reading served.
    asked: AtomicU64,
    served: AtomicU64,
    writers: Semaphore,
    reading: parking_lot::Mutex<Reading>,
}

/// State of reading the catalog.
#[derive(Default)]
struct Reading {
    failing_since: Option<Instant>,
    /// What is wrong with each row that is left out.
    bad: BTreeSet<String>,
}

impl Publisher {
    /// Makes a publisher whose upstreams have breakers with these settings.
    pub fn new(breaker: breaker::Settings) -> Self {
        Self {
            upstreams: UpstreamFactory::new(breaker),
            known: Mutex::default(),
            asked: AtomicU64::new(0),
            served: AtomicU64::new(0),
            writers: Semaphore::new(WRITERS),
            reading: parking_lot::Mutex::default(),
        }
    }

    /// See [`Upstream::with_stall_floor`].
    #[must_use]
    pub fn with_stall_floor(self, stall_floor: Duration) -> Self {
        Self { upstreams: self.upstreams.with_stall_floor(stall_floor), ..self }
    }

    /// Notes the context length that a probe learnt of the engine in a container, for the next catalog. Returns whether
    /// it is new.
    pub(crate) async fn learn(&self, instance: &InstanceId, max_model_len: i64) -> bool {
        self.known.lock().await.learn(instance, max_model_len)
    }

    /// Returns the engines that requests for a model were sent to last, as far as any of them still runs.
    pub(crate) async fn last_upstreams(&self, id: ModelId) -> Vec<Arc<Upstream>> {
        self.known.lock().await.last_upstreams(id)
    }

    /// Waits for a worker's turn to write, or to read before it writes. Take it before a database connection, and give
    /// it back after the connection.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.writers.acquire().await.ok()
    }

    /// Checks that the catalog can be read, with all its rows.
    ///
    /// # Errors
    /// What is wrong, in one line that shows nothing of any row.
    pub fn check(&self) -> Result<(), String> {
        let reading = self.reading.lock();
        match (reading.failing_since.map(|it| it.elapsed()), reading.bad.len()) {
            (Some(since), _) if since >= TELL_AFTER => Err(format!(
                "it could not be read for {} s: what was ended since still works",
                since.as_secs()
            )),
            (_, 0) => Ok(()),
            (_, n) => Err(format!("rows that can't be read and are left out: {n} (the log says which)")),
        }
    }

    /// Returns the number of rows that the current catalog leaves out because they can't be read.
    pub fn unreadable(&self) -> usize {
        self.reading.lock().bad.len()
    }

    /// Reads everything and swaps the new catalog in. All callers that ask while a reading is in progress are served by
    /// the next one.
    ///
    /// # Errors
    /// The database does not answer; the old catalog stays in force.
    pub async fn publish(&self, control: &Control) -> StoreResult<()> {
        let ticket = self.asked.fetch_add(1, SeqCst) + 1;
        let done = in_time(async {
            // The lock is held from the reading to the end, so that an older reading can't replace the catalog of a
            // newer one.
            let mut known = self.known.lock().await;
            if self.served.load(SeqCst) >= ticket {
                return Ok(());
            }
            let all = self.asked.load(SeqCst);
            // A quick read, because a slow query such as the sum of a year's usage must not delay the end of a revoked
            // key. No task waits for `known` while it holds one of these connections, so one becomes free.
            let mut tx = control.store.read_quick().await?;
            let read = read(&mut tx, control.clock.now()).await?;
            self.swap(control, &mut known, read);
            self.served.store(all, SeqCst);
            Ok(())
        })
        .await;
        if done.is_err() {
            let mut reading = self.reading.lock();
            reading.failing_since.get_or_insert_with(Instant::now);
        }
        done
    }

    /// Notes which rows could not be read, and logs each new one once.
    fn note(&self, bad: &[StoreError]) {
        let bad: BTreeSet<_> = bad.iter().map(ToString::to_string).collect();
        let mut reading = self.reading.lock();
        for row in bad.difference(&reading.bad) {
            error!(row, "left out of the catalog, so that it works for nobody until it can be read");
        }
        *reading = Reading { failing_since: None, bad };
    }

    /// Swaps in the catalog that `tx` leads to, and commits it. A client that reads in the database that a model runs
    /// can therefore call it already.
    ///
    /// # Errors
    /// The database does not answer. If it fails at the very end, the catalog is ahead until the next publication.
    pub async fn commit(&self, control: &Control, mut tx: Tx) -> StoreResult<()> {
        in_time(async {
            let mut known = self.known.lock().await;
            let read = read(&mut tx, control.clock.now()).await?;
            self.swap(control, &mut known, read);
            tx.commit().await
        })
        .await
    }

    fn swap(&self, control: &Control, known: &mut Known, read: Read) {
        let Read { callers, models, registry, supervisor, bad } = read;
        self.note(&bad);
        let before = control.shared.catalog.load_full();
        let mut next = Catalog::default();
        let begun = enter(control, &before, &mut next, callers);
        let reached = control.supervision.reaches(&supervisor);
        let mut targets = Targets::new(control, &self.upstreams, known, reached);
        for entry in registry {
            if let Some(target) = targets.manual(&entry) {
                next.routes.insert(entry.served_name.clone(), Arc::new(manual_route(control, entry, target)));
            }
        }
        let mut adapters = Vec::new();
        for model in models {
            // This phase was stored by the reconciler of another gateway.
            if !control.supervision.is_open() && known.is_outdated(&model) {
                // An error means only that there are no listeners.
                let _ = control.phases.send((model.id, model.phase.clone()));
            }
            let (target, context) = (targets.managed(&model), targets.context(&model));
            let route = managed_route(control, &model, target, context);
            for name in model.as_launched().adapters() {
                adapters.push(adapter_route(control, &route, name));
            }
            next.routes.insert(model.served_name.clone(), Arc::new(route));
        }
        // Adapters come after the models: if both have the same name, it goes to the model.
        for route in adapters {
            next.routes.entry(route.served_name.clone()).or_insert_with(|| Arc::new(route));
        }
        *known = targets.into_known();
        control.shared.stats.keep(|name| next.routes.contains_key(name));
        control.shared.publish(next);
        if begun {
            control.new_budgets.notify_one();
        }
    }
}

struct Read {
    callers: Callers,
    models: Vec<Model>,
    registry: Vec<RegistryEntry>,
    supervisor: Supervisor,
    /// Errors of the rows that can't be read.
    bad: Vec<StoreError>,
}

async fn read(tx: &mut Tx, now: Timestamp) -> StoreResult<Read> {
    let orgs = tx.limited_orgs().await?;
    // Rows that can't be read are skipped. One row of another version, or written by hand, must not keep the whole
    // catalog old, with keys that were revoked since.
    let (keys, sessions) = (tx.usable_keys(now).await?, tx.live_sessions(now).await?);
    let (models, registry) = (tx.readable_models().await?, tx.readable_registry().await?);
    Ok(Read {
        callers: Callers { orgs, keys: keys.rows, sessions: sessions.rows },
        models: models.rows,
        registry: registry.rows,
        supervisor: tx.supervisor().await?,
        bad: [keys.bad, sessions.bad, models.bad, registry.bad].into_iter().flatten().collect(),
    })
}
