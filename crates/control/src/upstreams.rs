//! Probes all engines that requests are routed to and keeps the results for people: whether an engine answers, how
//! fast, which models it lists, and how it was before. Whether requests go there is decided elsewhere (breaker,
//! reconciler).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use gantry_dataplane::{
    Route, Upstream, UpstreamHealth,
    breaker::{self, Verdict},
};
use gantry_domain::{
    Timestamp,
    host::{BreakerView, ProbeView, RouteHealth, UpstreamView},
};
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    Control,
    engine_http::{NoAnswer, models},
    probe::{self, Listed, Probed},
};

/// Number of probes that are remembered for each engine.
const HISTORY: usize = 60;
const AT_ONCE: usize = 16;

/// What is known of each served name's engines.
#[derive(Default)]
pub struct Upstreams(Mutex<HashMap<String, Vec<Seen>>>);

/// What was seen of one engine, as long as it stays the same.
#[derive(Debug, Default)]
struct Seen {
    upstream: u64,
    last_ok_at: Option<Timestamp>,
    last_error: Option<String>,
    latency: Option<Duration>,
    failures: u32,
    models: Vec<String>,
    /// Context length of the model in tokens, if it says so.
    max_model_len: Option<i64>,
    history: VecDeque<Probe>,
}

#[derive(Debug, Clone)]
struct Probe {
    at: Timestamp,
    latency: Option<Duration>,
    error: Option<String>,
}

/// What one probe found.
pub(crate) struct Look {
    /// How long it took to answer, if it did.
    pub latency: Option<Duration>,
    pub error: Option<String>,
    /// The names that it lists, if it gave a list.
    pub models: Option<Vec<String>>,
    /// Context length of the model in tokens, if it says so.
    pub max_model_len: Option<i64>,
}

impl Look {
    fn bad(latency: Option<Duration>, error: impl Into<String>) -> Self {
        Self { latency, error: Some(error.into()), models: None, max_model_len: None }
    }
}

impl From<Probed> for Look {
    fn from(it: Probed) -> Self {
        let error = it.error().map(str::to_owned);
        let models = error.is_none().then_some(it.models);
        Self { latency: it.latency, models, max_model_len: it.max_model_len, error }
    }
}

impl Upstreams {
    /// Notes a probe of `upstream`, one of the engines that `route` leads to. Forgets what is known of engines that
    /// `route` no longer leads to.
    pub(crate) fn note(&self, route: &Route, upstream: &Upstream, at: Timestamp, look: Look) {
        let Look { latency, error, models, max_model_len } = look;
        let probe = Probe { at, latency, error };
        let mut all = self.lock();
        let all = all.entry(route.served_name.clone()).or_default();
        all.retain(|seen| route.target.upstreams().iter().any(|it| it.id == seen.upstream));
        if all.iter().all(|it| it.upstream != upstream.id) {
            all.push(Seen { upstream: upstream.id, ..Seen::default() });
        }
        let Some(seen) = all.iter_mut().find(|it| it.upstream == upstream.id) else { return };
        seen.latency = probe.latency.or(seen.latency);
        if let Some(error) = &probe.error {
            seen.failures = seen.failures.saturating_add(1);
            seen.last_error = Some(error.clone());
        } else {
            seen.failures = 0;
            seen.last_ok_at = Some(probe.at);
        }
        if let Some(models) = models {
            seen.models = models;
            seen.max_model_len = max_model_len;
        }
        if seen.history.len() >= HISTORY {
            seen.history.pop_front();
        }
        seen.history.push_back(probe);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Seen>>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.0.lock()
    }
}

impl Control {
    /// Returns all engines by served name: one for each address, and one for a model that does not run.
    pub fn upstreams(&self) -> Vec<UpstreamView> {
        let (catalog, now) = (self.shared.catalog.load(), Instant::now());
        let seen = self.upstreams.lock();
        let mut views = Vec::new();
        for route in catalog.routes.values().filter(|it| it.adapter_of.is_none()) {
            let seen = seen.get(&route.served_name).map(Vec::as_slice).unwrap_or_default();
            match route.target.upstreams() {
                [] => views.push(view(route, None, seen.last(), now)),
                all => views.extend(all.iter().map(|it| view(route, Some(it), of(seen, it), now))),
            }
        }
        // Stable: addresses stay in the order of the entry.
        views.sort_by(|a, b| a.served_name.cmp(&b.served_name));
        views
    }

    /// Whether a request to this name may be expected to succeed; `None` if nothing has the name.
    pub fn route_health(&self, served_name: &str) -> Option<RouteHealth> {
        let catalog = self.shared.catalog.load();
        let route = catalog.routes.get(served_name)?;
        let (seen, now) = (self.upstreams.lock(), Instant::now());
        let seen = seen.get(served_name).map(Vec::as_slice).unwrap_or_default();
        let engines = route.target.upstreams().iter();
        let best = engines.map(|it| health(route, it, of(seen, it), now)).min_by_key(|it| it.rank());
        Some(best.unwrap_or(RouteHealth::Down))
    }

    /// Returns the context length in tokens that the engines behind a name report: the shortest, if they differ.
    pub fn reported_context(&self, served_name: &str) -> Option<i64> {
        self.upstreams.lock().get(served_name)?.iter().filter_map(|it| it.max_model_len).min()
    }

    /// Probes the engines of these served names now; without a list, the engines of all names. Names without an engine
    /// are left out.
    pub async fn probe_upstreams(&self, names: Option<&[String]>) {
        self.probe_routes(|route| names.is_none_or(|names| names.contains(&route.served_name))).await;
    }

    async fn probe_routes(&self, wanted: impl Fn(&Route) -> bool) {
        let catalog = self.shared.catalog.load_full();
        let wanted = catalog.routes.values().filter(|it| it.adapter_of.is_none() && wanted(it));
        let wanted: Vec<_> = wanted
            .flat_map(|route| route.target.upstreams().iter().map(|it| (Arc::clone(route), Arc::clone(it))))
            .collect();
        let probes = wanted.into_iter().map(async |(route, upstream)| {
            let at = self.clock.now();
            let Some(look) = ask(&route, &upstream).await else { return };
            // An engine that lists other models does answer. For the breaker, its answers to requests say more than the
            // list.
            judge(&upstream, look.error.is_none() || look.models.is_some());
            upstream.ailing.store(look.error.is_some(), Relaxed);
            self.upstreams.note(&route, &upstream, at, look);
        });
        stream::iter(probes).buffer_unordered(AT_ONCE).collect::<()>().await;
        self.upstreams.lock().retain(|name, _| catalog.routes.contains_key(name));
        // `/v1/models` shows the context, and requests are measured by it.
        let learned = catalog.routes.values().any(|it| {
            it.engine.is_none()
                && it.adapter_of.is_none()
                && it.max_model_len != self.reported_context(&it.served_name)
        });
        if learned && let Err(error) = self.publisher.publish(self).await {
            warn!(%error, "the context of an engine is shown later: the catalog can't be read now");
        }
    }
}

/// Feeds the breaker with a probe, as requests do. A good probe counts as the trial while the breaker is not closed.
/// While it is closed, a good probe says nothing about requests, and must not forgive an engine that fails every one of
/// them.
pub(crate) fn judge(upstream: &Upstream, good: bool) {
    let (breaker, now) = (&upstream.breaker, Instant::now());
    if !good {
        breaker.record(Verdict::Failure, now);
    } else if breaker.snapshot(now).state != breaker::State::Closed {
        breaker.record(Verdict::Success, now);
    }
}

/// Probes an engine. Returns `None` if this process is out of descriptors or memory. Engines of the registry get their
/// own key, if they have one, never the internal key.
async fn ask(route: &Route, upstream: &Upstream) -> Option<Look> {
    let started = Instant::now();
    let asked = models(upstream, probe::TIMEOUT).await;
    let latency = Some(started.elapsed());
    Some(match asked {
        Ok((StatusCode::OK, body)) => match probe::look_up(route.name_there(), &body) {
            Some(Listed { has, max_model_len, models }) => {
                let error = (!has).then(|| unlisted(route.name_there(), &models));
                Look { latency, error, models: Some(models), max_model_len }
            }
            None => Look::bad(latency, probe::NO_LIST),
        },
        Ok((status, _)) if probe::refuses_key(status) => Look::bad(latency, probe::KEY_REFUSED),
        Ok((status, _)) => Look::bad(latency, format!("/v1/models answers {}", status.as_u16())),
        Err(NoAnswer::Closed(detail)) => Look::bad(None, detail),
        Err(NoAnswer::TimedOut) => Look::bad(None, probe::NO_ANSWER),
        Err(NoAnswer::NotAsked(error)) => {
            warn!(%error, "an engine can't be probed");
            return None;
        }
    })
}

/// Says what is wrong with an engine that answers but does not serve the model.
fn unlisted(name: &str, models: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> = models.iter().take(SHOWN).map(|it| format!("`{it}`")).collect();
    let lists = match models.len().saturating_sub(SHOWN) {
        _ if models.is_empty() => "lists no model".to_owned(),
        0 => format!("lists {}", shown.join(", ")),
        more => format!("lists {} and {more} more", shown.join(", ")),
    };
    format!("it answers, but does not serve `{name}`: it {lists}")
}

/// Returns what was seen of an engine. What was seen of an engine that it replaced does not count.
fn of<'a>(seen: &'a [Seen], upstream: &Upstream) -> Option<&'a Seen> {
    seen.iter().find(|it| it.upstream == upstream.id)
}

fn view(route: &Route, upstream: Option<&Arc<Upstream>>, seen: Option<&Seen>, now: Instant) -> UpstreamView {
    let snapshot = upstream.map(|it| it.breaker.snapshot(now));
    let health = upstream.map_or(RouteHealth::Down, |it| health(route, it, seen, now));
    let probes_fail = seen.is_some_and(|it| it.failures > 0);
    let ms = |it: Duration| crate::machine::host::tenths(it.as_secs_f64() * 1e3);
    UpstreamView {
        served_name: route.served_name.clone(),
        url: upstream.map(|it| it.url().to_owned()),
        task: route.task,
        engine_type: route.engine,
        source: if route.engine.is_some() { "managed" } else { "manual" },
        healthy: health.is_ok(),
        last_ok_at: seen.and_then(|it| it.last_ok_at).map(Timestamp::rfc3339),
        last_error: trouble(health, snapshot)
            .filter(|_| !probes_fail)
            .or_else(|| seen.and_then(|it| it.last_error.clone())),
        latency_ms: seen.and_then(|it| it.latency).map(ms),
        // Failures of probes or of requests, whichever are more, as far as they are not forgiven.
        consecutive_failures: seen.map_or(0, |it| it.failures).max(snapshot.map_or(0, |it| it.failures)),
        breaker: BreakerView {
            state: breaker_text(snapshot.map_or(breaker::State::Closed, |it| it.state)),
            keeps_away: snapshot
                .filter(|it| it.state != breaker::State::Closed)
                .map(|it| if it.for_some { "some" } else { "all" }),
            cooldown_remaining_sec: snapshot
                .and_then(|it| it.retry_in)
                .map_or(0.0, |it| crate::machine::host::tenths(it.as_secs_f64())),
        },
        in_flight: upstream.map_or(0, |it| it.in_flight.load(Relaxed)),
        models: seen.map(|it| it.models.clone()).unwrap_or_default(),
        history: seen.into_iter().flat_map(|it| &it.history).map(|it| probe_view(it, ms)).collect(),
    }
}

/// Returns the health of an engine. If it was not probed here yet, one of our own counts as good, because another probe
/// said that it is ready. One that was entered by hand does not, because no probe has said so.
fn health(route: &Route, upstream: &Upstream, seen: Option<&Seen>, now: Instant) -> RouteHealth {
    match upstream.health(now) {
        UpstreamHealth::Failing { half_open, for_some } => RouteHealth::Failing { half_open, for_some },
        UpstreamHealth::Stalled { since } => {
            RouteHealth::Stalled { silent_sec: now.saturating_duration_since(since).as_secs() }
        }
        UpstreamHealth::Ok if seen.map_or(route.engine.is_some(), |it| it.failures == 0) => RouteHealth::Ok,
        UpstreamHealth::Ok => RouteHealth::ProbesFail,
    }
}

/// Returns a problem that probes do not see.
fn trouble(health: RouteHealth, snapshot: Option<breaker::Snapshot>) -> Option<String> {
    match (health, snapshot) {
        (RouteHealth::Stalled { silent_sec }, _) => {
            Some(format!("it has sent nothing for {silent_sec} s while requests wait for it"))
        }
        (RouteHealth::Failing { for_some: true, .. }, Some(it)) => Some(format!(
            "{} requests to it failed in a row, all of one or two callers; the others are served",
            it.failures
        )),
        (RouteHealth::Failing { for_some: false, .. }, Some(it)) => {
            Some(format!("{} requests to it failed in a row", it.failures))
        }
        _ => None,
    }
}

fn breaker_text(state: breaker::State) -> &'static str {
    match state {
        breaker::State::Closed => "closed",
        breaker::State::Open => "open",
        breaker::State::HalfOpen => "half_open",
    }
}

fn probe_view(probe: &Probe, ms: impl Fn(Duration) -> f64) -> ProbeView {
    ProbeView {
        ts: probe.at.rfc3339(),
        ok: probe.error.is_none(),
        latency_ms: probe.latency.map(ms),
        error: probe.error.clone(),
    }
}

/// Probes the engines that were entered by hand until `stop`; the reconciler probes those of our own.
pub async fn run(control: Arc<Control>, stop: CancellationToken) {
    let mut ticks =
        tokio::time::interval(control.config.supervision.health_poll_sec.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        control.probe_routes(|route| route.engine.is_none()).await;
    }
}
