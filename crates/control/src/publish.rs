//! Builds the data plane's catalog from the database and swaps it in. What requests hold on to (key states, engines
//! with their breakers) is carried over.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gantry_dataplane::{
    Catalog, KeyEntry, RequestDefaults, Route, RouteTarget, SessionEntry, Upstream,
    breaker::{self, Breaker},
    limits::{Account, AccountState, Guard, Holder, KeyState, nanos},
};
use gantry_domain::{
    ModelId, OrgId, Timestamp,
    identity::{Session, User},
    key::ApiKey,
    limit::{LimitMode, Limits},
    model::{Model, ModelConfig, Phase, State, lifecycle::InstanceId},
};
use gantry_runtime::Gate;
use gantry_store::{DatabaseKind, RegistryEntry, StoreResult, Supervisor, Tx, in_time};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{Control, base_dir};

/// Who waits for a publication.
pub type Requests = mpsc::Receiver<oneshot::Sender<()>>;

/// However lost a hint may get: a change is in the catalog after this time.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(5);
/// And what no counter tells, such as a database that was put back, after this one.
const READ_AT_LEAST_EVERY: Duration = Duration::from_mins(1);
/// How often a gateway looks for what others on its database changed: keys and sessions that were ended end here too
/// within this time and that of one reading.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_mins(10);
const DEFAULT_STREAM_IDLE: Duration = Duration::from_mins(5);

/// Makes catalogs. Remembers the engines that the current one leads to.
pub struct Publisher {
    next_id: AtomicU64,
    breaker: breaker::Settings,
    /// See [`Upstream::with_stall_floor`].
    stall_floor: Duration,
    known: Mutex<Known>,
}

/// What makes an engine the same one as before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Managed { instance: InstanceId, port: u16 },
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
        Self { next_id: AtomicU64::new(1), breaker, stall_floor, known: Mutex::default() }
    }

    /// See [`Upstream::with_stall_floor`].
    #[must_use]
    pub fn with_stall_floor(self, stall_floor: Duration) -> Self {
        Self { stall_floor, ..self }
    }

    /// Notes what a probe learnt of the engine in a container, for the next catalog; whether that is news.
    pub(crate) async fn learn(&self, instance: &InstanceId, max_model_len: i64) -> bool {
        let mut known = self.known.lock().await;
        known.contexts.insert(instance.clone(), max_model_len) != Some(max_model_len)
    }

    /// The engine that requests for a model were sent to last, while there still are any.
    pub(crate) async fn last_upstream(&self, id: ModelId) -> Option<Arc<Upstream>> {
        self.known.lock().await.last.get(&id)?.upgrade()
    }

    /// Reads everything and swaps the new catalog in.
    ///
    /// # Errors
    /// The database does not answer; the old catalog stays in force.
    pub async fn publish(&self, control: &Control) -> StoreResult<()> {
        in_time(async {
            // A key that was revoked must not go on because somebody adds up a year of usage.
            let mut tx = control.store.read_quick().await?;
            // Held from the reading to the end, so that an older reading can't replace a newer one's catalog. Whoever
            // waits for it has its connection already: a pool without a free one would be a deadlock.
            let mut known = self.known.lock().await;
            let read = read(&mut tx, control.clock.now()).await?;
            self.swap(control, &mut known, read);
            Ok(())
        })
        .await
    }

    /// Swaps in the catalog that `tx` leads to, and commits it: who reads in the database that a model runs can call it
    /// already.
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
        let Read { callers, models, registry, supervisor } = read;
        let reached = control.supervision.reaches(&supervisor);
        let before = control.shared.catalog.load_full();
        let mut next = Catalog::default();
        let begun = enter(control, &before, &mut next, callers);
        let mut upstreams = HashMap::new();
        for entry in registry {
            let place = manual_place(&entry);
            let key = entry.api_key.as_ref().map(SecretString::expose_secret);
            if let Some(upstream) = self.upstream(known, &place, (&entry.served_name, &entry.url), key) {
                let target = RouteTarget::Up(Arc::clone(&upstream));
                next.routes.insert(entry.served_name.clone(), Arc::new(manual_route(control, entry, target)));
                upstreams.insert(place, upstream);
            }
        }
        let mut contexts = HashMap::new();
        let mut last = std::mem::take(&mut known.last);
        last.retain(|_, it| it.strong_count() > 0);
        let mut phases = HashMap::new();
        let mut adapters = Vec::new();
        for model in models {
            // What the reconciler of another gateway stored.
            if !control.supervision.is_open()
                && known.phases.get(&model.id).is_some_and(|it| *it != model.phase)
            {
                // Nobody may be listening.
                let _ = control.phases.send((model.id, model.phase.clone()));
            }
            phases.insert(model.id, model.phase.clone());
            let target = match &model.phase {
                Phase::Running { .. } if !reached && model.state().0 == State::Running => {
                    RouteTarget::Elsewhere
                }
                Phase::Running { instance, port, .. } if model.state().0 == State::Running => {
                    let place = Place::Managed { instance: instance.clone(), port: *port };
                    let url = format!("http://127.0.0.1:{port}");
                    let key = control.config.internal_key.expose_secret();
                    match self.upstream(known, &place, (&model.served_name, &url), Some(key)) {
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
        // After the models: a name of theirs goes to them.
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

    fn upstream(
        &self,
        known: &Known,
        place: &Place,
        (name, url): (&str, &str),
        key: Option<&str>,
    ) -> Option<Arc<Upstream>> {
        if let Some(upstream) = known.upstreams.get(place) {
            return Some(Arc::clone(upstream));
        }
        let id = self.next_id.fetch_add(1, Relaxed);
        match Upstream::new(id, url, key, Arc::new(Breaker::new(self.breaker))) {
            Ok(upstream) => Some(Arc::new(upstream.with_stall_floor(self.stall_floor).with_name(name))),
            Err(error) => {
                warn!(url, %error, "an engine can't be routed to");
                None
            }
        }
    }
}

/// Enters who may ask, with what he may use up. Whether an account has a budget that was not there before.
fn enter(
    control: &Control,
    before: &Catalog,
    next: &mut Catalog,
    Callers { orgs, keys, sessions }: Callers,
) -> bool {
    let states: HashMap<_, _> = before.keys.values().map(|it| (it.id, &it.state)).collect();

    let mut books = Books { control, now: control.clock.now(), begun: false };
    let orgs = orgs.into_iter().map(|(id, limits)| (Holder::Org(id), limits));
    let users: HashSet<_> = sessions.iter().map(|(_, user)| Holder::User(user.id)).collect();
    let users = users.into_iter().map(|it| (it, control.config.default_limits));
    for (holder, limits) in orgs.chain(users) {
        let known = before.states.get(&holder).map(Arc::clone);
        let state = known.unwrap_or_else(|| Arc::new(AccountState::new(holder)));
        if let Some(account) = books.account(limits, LimitMode::Enforce, &state) {
            next.accounts.insert(account.holder, account);
        }
        next.states.insert(holder, state);
    }
    for key in keys {
        let known = states.get(&key.id).map(|it| Arc::clone(it));
        let state = known.unwrap_or_else(|| Arc::new(KeyState::new(key.id)));
        let limits = key.settings.limits.or(control.config.default_limits);
        let account = books.account(limits, key.settings.limit_mode, &state.account);
        let guard = Guard::new(account.as_ref(), next.accounts.get(&Holder::Org(key.org_id)));
        next.accounts.extend(account.map(|it| (it.holder, it)));
        next.keys.insert(key.token_hash, Arc::new(key_entry(key, guard, state)));
    }
    for (session, user) in sessions {
        let entry = SessionEntry {
            user_id: user.id,
            org_id: user.org_id,
            created_at: session.created_at,
            expires_at: session.expires_at,
            guard: Guard::new(
                next.accounts.get(&Holder::User(user.id)),
                next.accounts.get(&Holder::Org(user.org_id)),
            ),
        };
        next.sessions.insert(session.id_hash, Arc::new(entry));
    }
    // Of those without a limit just now, what they used is kept until it is earned back: nobody gets a fresh limit by
    // signing out and in again.
    let now = nanos(Instant::now());
    for (holder, state) in &before.states {
        if !next.states.contains_key(holder) && !state.is_at_rest(now) {
            next.states.insert(*holder, Arc::clone(state));
        }
    }
    books.begun
}

/// Opens the accounts of a catalog.
struct Books<'a> {
    control: &'a Control,
    now: Timestamp,
    /// One of them has a budget that was not there before.
    begun: bool,
}

impl Books<'_> {
    fn account(
        &mut self,
        limits: Limits,
        mode: LimitMode,
        state: &Arc<AccountState>,
    ) -> Option<Arc<Account>> {
        let has_budget = limits.budget_tokens_day.is_some() || limits.budget_tokens_month.is_some();
        self.begun |= state.spendings.track(has_budget, self.now);
        let mode = match self.control.config.limit_mode {
            LimitMode::Shadow => LimitMode::Shadow,
            LimitMode::Enforce => mode,
        };
        Account::new(state.holder(), limits, mode, state)
    }
}

/// Who may ask.
struct Callers {
    orgs: Vec<(OrgId, Limits)>,
    keys: Vec<ApiKey>,
    sessions: Vec<(Session, User)>,
}

struct Read {
    callers: Callers,
    models: Vec<Model>,
    registry: Vec<RegistryEntry>,
    supervisor: Supervisor,
}

async fn read(tx: &mut Tx, now: Timestamp) -> StoreResult<Read> {
    Ok(Read {
        callers: Callers {
            orgs: tx.limited_orgs().await?,
            keys: tx.usable_keys(now).await?,
            sessions: tx.live_sessions(now).await?,
        },
        models: tx.models(false).await?,
        registry: tx.registry().await?,
        supervisor: tx.supervisor().await?,
    })
}

fn key_entry(key: ApiKey, guard: Option<Arc<Guard>>, state: Arc<KeyState>) -> KeyEntry {
    KeyEntry {
        id: key.id,
        prefix: key.prefix.into(),
        user_id: key.user_id,
        org_id: key.org_id,
        scopes: key.settings.scopes,
        models: key.settings.models.map(Vec::into_boxed_slice),
        ip_allowlist: key.settings.ip_allowlist,
        expires_at: key.settings.expires_at,
        guard,
        state,
    }
}

fn managed_route(control: &Control, model: &Model, target: RouteTarget, max_model_len: Option<i64>) -> Route {
    // What the engine is was fixed when it started; what the gateway does itself follows the record at once.
    let launched = model.as_launched();
    let seconds = |name, default| {
        let set = model.config.int(name).and_then(|it| u64::try_from(it).ok());
        set.map_or(default, Duration::from_secs)
    };
    Route {
        served_name: model.served_name.clone(),
        adapter_of: None,
        task: launched.task,
        engine: Some(model.engine),
        target,
        request_timeout: seconds("request_timeout_sec", DEFAULT_REQUEST_TIMEOUT),
        stream_idle_timeout: seconds("stream_idle_timeout_sec", DEFAULT_STREAM_IDLE),
        created: model.created_at,
        max_model_len: max_model_len.or(launched.config.int("max_model_len")),
        request_defaults: request_defaults(&model.config).map(Arc::new),
        stats: control.shared.stats.of(&model.served_name),
    }
}

fn adapter_route(control: &Control, model: &Route, name: &str) -> Route {
    Route {
        served_name: name.to_owned(),
        adapter_of: Some(model.served_name.clone()),
        target: model.target.clone(),
        request_defaults: model.request_defaults.clone(),
        stats: control.shared.stats.of(name),
        ..*model
    }
}

fn manual_route(control: &Control, entry: RegistryEntry, target: RouteTarget) -> Route {
    Route {
        stats: control.shared.stats.of(&entry.served_name),
        served_name: entry.served_name,
        adapter_of: None,
        task: entry.task,
        engine: None,
        target,
        request_timeout: DEFAULT_REQUEST_TIMEOUT,
        stream_idle_timeout: DEFAULT_STREAM_IDLE,
        created: entry.created_at,
        max_model_len: None,
        request_defaults: None,
    }
}

fn request_defaults(config: &ModelConfig) -> Option<RequestDefaults> {
    RequestDefaults::new(config.get("request_defaults")?.as_object()?)
}

/// A changed key makes another engine, so it is part of the place; only its hash stays in memory twice.
fn manual_place(entry: &RegistryEntry) -> Place {
    let key = entry.api_key.as_ref().map(|it| gantry_domain::key::hash(it.expose_secret().as_bytes()));
    Place::Manual { served_name: entry.served_name.clone(), url: entry.url.clone(), key }
}

/// Ends when another gateway on this database changed something since `seen`. A database that does not answer is left
/// to the next publication, which says so.
async fn changed_elsewhere(control: &Control, seen: i64) {
    if control.store.kind() == DatabaseKind::Sqlite {
        // It belongs to one gateway.
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if changes(control).await.is_ok_and(|n| n != seen) {
            return;
        }
    }
}

/// Takes over what another gateway may have changed but the catalog: the models base directory, and commands, which the
/// reconciler is sent to look for. It has its own count: the publisher's is taken over by whatever is read first, and a
/// command from elsewhere would go unnoticed among requests of this gateway.
async fn follow_others(control: &Control) {
    if control.store.kind() == DatabaseKind::Sqlite {
        return std::future::pending().await;
    }
    let (mut seen, mut base_dir) = (None, None);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Ok(now) = changes(control).await else { continue };
        if seen == Some(now) || in_time(base_dir::follow(control, &mut base_dir)).await.is_err() {
            continue;
        }
        seen = Some(now);
        control.changed_elsewhere.notify_one();
    }
}

async fn changes(control: &Control) -> StoreResult<i64> {
    in_time(async { control.store.read_quick().await?.changes().await }).await
}

/// Publishes whenever somebody asks, when something changed since, and now and then regardless.
pub async fn run(control: Arc<Control>, mut requests: Requests, stop: CancellationToken) {
    let mut waiting = Vec::new();
    let (mut seen, mut read_at) = (0, Instant::now());
    // The last reading failed. It is tried again after a pause, whatever it was that could not be read.
    let mut failed = false;
    let mut following = std::pin::pin!(follow_others(&control));
    loop {
        let asked = tokio::select! {
            () = changed_elsewhere(&control, seen) => true,
            // Never ends.
            () = &mut following => false,
            () = stop.cancelled() => return,
            // Everybody who asked meanwhile is served by one reading.
            n = requests.recv_many(&mut waiting, 1024) => if n == 0 { return } else { true },
            () = tokio::time::sleep(LOOK_AT_LEAST_EVERY) => false,
        };
        // Before the reading, so that what comes meanwhile is read next time. Own changes are seen as well, which costs
        // one reading too many at most.
        let now = changes(&control).await.ok();
        if asked || failed || now != Some(seen) || read_at.elapsed() >= READ_AT_LEAST_EVERY {
            (seen, read_at) = (now.unwrap_or(seen), Instant::now());
            let read = control.publisher.publish(&control).await;
            failed = read.is_err();
            if let Err(error) = read {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "the catalog could not be read; the old one stays"
                );
            }
        }
        for waiter in waiting.drain(..) {
            let _ = waiter.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_model_s_request_defaults_are_published() {
        let of = |config: &Value| {
            let config = ModelConfig::from_stored(config.as_object().unwrap().clone());
            request_defaults(&config).map(|it| format!("{it:?}"))
        };
        assert!(of(&json!({"request_defaults": {"top_k": 40}})).unwrap().contains("\"top_k\""));
        assert_eq!(of(&json!({"request_defaults": {}})), None);
        assert_eq!(of(&json!({})), None);
    }
}
