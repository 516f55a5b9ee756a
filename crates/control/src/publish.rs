//! Builds the data plane's catalog from the database and swaps it in. What requests hold on to (key states, engines
//! with their breakers) is carried over.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, PoisonError, Weak,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use gantry_connect::Connector;
use gantry_dataplane::{
    Catalog, RouteTarget, Upstream,
    breaker::{self, Breaker},
};
use gantry_domain::{
    ModelId, Timestamp,
    engine::{EngineAddress, key_of},
    listeners::Listeners,
    model::{Model, Phase, State, lifecycle::InstanceId},
    net::MAX_ENGINE_URLS,
};
use gantry_runtime::Gate;
use gantry_store::{RegistryEntry, StoreError, StoreResult, Supervisor, Tx, in_time};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tracing::{error, warn};

pub use self::task::{Requests, run};
use self::{
    callers::{Callers, enter},
    routes::{adapter_route, managed_route, manual_route},
};
use crate::Control;

mod callers;
mod routes;
mod task;

/// If the catalog can't be read for longer than this, the failure is reported: keys that were revoked since still work.
const TELL_AFTER: Duration = Duration::from_secs(10);
/// Most workers that write at the same time. Each of them waits with a connection in hand until its catalog's turn
/// comes. If all models that change at once did so, no connection would be left for anything else, and requests for one
/// would fail.
const WRITERS: usize = 4;

/// Makes catalogs. Remembers the engines that the current one leads to.
pub struct Publisher {
    next_id: AtomicU64,
    breaker: breaker::Settings,
    /// See [`Upstream::with_stall_floor`].
    stall_floor: Duration,
    /// One connector for all engines, so that certificates are read once.
    connector: Arc<Connector>,
    known: Mutex<Known>,
    /// Number of publications that were asked for, and how many of them the last reading served.
    asked: AtomicU64,
    served: AtomicU64,
    writers: Semaphore,
    reading: std::sync::Mutex<Reading>,
}

/// State of reading the catalog.
#[derive(Default)]
struct Reading {
    failing_since: Option<Instant>,
    /// What is wrong with each row that is left out.
    bad: BTreeSet<String>,
}

/// Identifies an engine: one with an equal place is the same as before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Managed { instance: InstanceId, address: EngineAddress },
    Manual { served_name: String, url: String, key: Option<[u8; 32]> },
}

#[derive(Default)]
struct Known {
    upstreams: HashMap<Place, Arc<Upstream>>,
    /// Context lengths that engines reported, in tokens.
    contexts: HashMap<InstanceId, i64>,
    /// What was last seen of each model.
    phases: HashMap<ModelId, Phase>,
    /// Where each model's requests went last; alive as long as one of them is.
    last: HashMap<ModelId, Weak<Upstream>>,
}

impl Publisher {
    pub fn new(breaker: breaker::Settings) -> Self {
        let stall_floor = Duration::from_secs(30);
        Self {
            next_id: AtomicU64::new(1),
            breaker,
            stall_floor,
            connector: Arc::default(),
            known: Mutex::default(),
            asked: AtomicU64::new(0),
            served: AtomicU64::new(0),
            writers: Semaphore::new(WRITERS),
            reading: std::sync::Mutex::default(),
        }
    }

    /// See [`Upstream::with_stall_floor`].
    #[must_use]
    pub fn with_stall_floor(self, stall_floor: Duration) -> Self {
        Self { stall_floor, ..self }
    }

    /// Notes the context length that a probe learnt of the engine in a container, for the next catalog. Returns whether
    /// it is new.
    pub(crate) async fn learn(&self, instance: &InstanceId, max_model_len: i64) -> bool {
        let mut known = self.known.lock().await;
        known.contexts.insert(instance.clone(), max_model_len) != Some(max_model_len)
    }

    /// Returns the engine that requests for a model were sent to last, while any of them still runs.
    pub(crate) async fn last_upstream(&self, id: ModelId) -> Option<Arc<Upstream>> {
        self.known.lock().await.last.get(&id)?.upgrade()
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
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).bad.len()
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
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            reading.failing_since.get_or_insert_with(Instant::now);
        }
        done
    }

    /// Notes which rows could not be read, and logs each new one once.
    fn note(&self, bad: &[StoreError]) {
        let bad: BTreeSet<_> = bad.iter().map(ToString::to_string).collect();
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
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
        let reached = control.supervision.reaches(&supervisor);
        let before = control.shared.catalog.load_full();
        let mut next = Catalog::default();
        let begun = enter(control, &before, &mut next, callers);
        let mut upstreams = HashMap::new();
        for entry in registry {
            if let Some(target) = self.manual_target(known, &entry, &mut upstreams) {
                next.routes.insert(entry.served_name.clone(), Arc::new(manual_route(control, entry, target)));
            }
        }
        let mut contexts = HashMap::new();
        let mut last = std::mem::take(&mut known.last);
        last.retain(|_, it| it.strong_count() > 0);
        let mut phases = HashMap::new();
        let mut adapters = Vec::new();
        for model in models {
            // This phase was stored by the reconciler of another gateway.
            if !control.supervision.is_open()
                && known.phases.get(&model.id).is_some_and(|it| *it != model.phase)
            {
                // An error means only that there are no listeners.
                let _ = control.phases.send((model.id, model.phase.clone()));
            }
            phases.insert(model.id, model.phase.clone());
            let target = match &model.phase {
                Phase::Running { .. } if !reached && model.state().0 == State::Running => {
                    RouteTarget::Elsewhere
                }
                Phase::Running { instance, address, .. } if model.state().0 == State::Running => {
                    let place = Place::Managed { instance: instance.clone(), address: address.clone() };
                    let url = address.to_string();
                    let key = key_of(&control.config.internal_key, &model);
                    let guard = control.listeners.as_ref();
                    match self.upstream(
                        known,
                        &place,
                        (&model.served_name, &url),
                        Some(key.expose_secret()),
                        guard,
                    ) {
                        Some(upstream) => {
                            upstreams.insert(place, Arc::clone(&upstream));
                            last.insert(model.id, Arc::downgrade(&upstream));
                            RouteTarget::Up(upstream)
                        }
                        None => RouteTarget::Down { state: State::Failed },
                    }
                }
                _ => match &model.apply {
                    Some(apply) if model.is_swapping() => {
                        RouteTarget::Returning { until: apply.at.plus(control.config.apply_wait) }
                    }
                    _ => RouteTarget::Down { state: model.state().0 },
                },
            };
            let context = model.phase.instance().and_then(|it| Some((it, *known.contexts.get(it)?)));
            contexts.extend(context.map(|(instance, context)| (instance.clone(), context)));
            let route = managed_route(control, &model, target, context.map(|(_, context)| context));
            for name in model.as_launched().adapters() {
                adapters.push(adapter_route(control, &route, name));
            }
            next.routes.insert(model.served_name.clone(), Arc::new(route));
        }
        // Adapters come after the models: if both have the same name, it goes to the model.
        for route in adapters {
            next.routes.entry(route.served_name.clone()).or_insert_with(|| Arc::new(route));
        }
        *known = Known { upstreams, contexts, phases, last };
        control.shared.stats.keep(|name| next.routes.contains_key(name));
        control.shared.publish(next);
        if begun {
            control.new_budgets.notify_one();
        }
    }

    /// Returns the engines of a registry entry and notes them among `upstreams`; `None` if none of its addresses can be
    /// routed to.
    fn manual_target(
        &self,
        known: &Known,
        entry: &RegistryEntry,
        upstreams: &mut HashMap<Place, Arc<Upstream>>,
    ) -> Option<RouteTarget> {
        let key = entry.api_key.as_ref().map(SecretString::expose_secret);
        let mut all = Vec::new();
        for url in entry.urls.iter().take(MAX_ENGINE_URLS) {
            let place = manual_place(entry, url);
            if let Some(upstream) = self.upstream(known, &place, (&entry.served_name, url), key, None) {
                upstreams.insert(place, Arc::clone(&upstream));
                all.push(upstream);
            }
        }
        (!all.is_empty()).then(|| RouteTarget::AnyOf(all.into()))
    }

    fn upstream(
        &self,
        known: &Known,
        place: &Place,
        (name, url): (&str, &str),
        key: Option<&str>,
        guard: Option<&Arc<Listeners>>,
    ) -> Option<Arc<Upstream>> {
        if let Some(upstream) = known.upstreams.get(place) {
            return Some(Arc::clone(upstream));
        }
        let id = self.next_id.fetch_add(1, Relaxed);
        match Upstream::new(id, url, key, Arc::new(Breaker::new(self.breaker))) {
            Ok(upstream) => {
                let upstream = upstream.with_connector(Arc::clone(&self.connector));
                let upstream = upstream.with_stall_floor(self.stall_floor).with_name(name);
                Some(Arc::new(match guard {
                    Some(allowed) => upstream.guarded(Arc::clone(allowed)),
                    None => upstream,
                }))
            }
            Err(error) => {
                warn!(url, %error, "an engine can't be routed to");
                None
            }
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

/// Returns the place of a registry entry's engine. A changed key makes another engine, so it is part of the place. Only
/// its hash is kept in memory a second time.
fn manual_place(entry: &RegistryEntry, url: &str) -> Place {
    let key = entry.api_key.as_ref().map(|it| gantry_domain::key::hash(it.expose_secret().as_bytes()));
    Place::Manual { served_name: entry.served_name.clone(), url: url.to_owned(), key }
}
