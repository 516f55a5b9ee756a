//! Probes of all engines that requests are routed to, for people to look at: is it there, how fast, what does it list,
//! and how was it before. Whether requests go there is decided elsewhere (breaker, reconciler).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use gantry_dataplane::{
    Route, RouteTarget, Upstream, UpstreamHealth,
    breaker::{self, Verdict},
};
use gantry_domain::{
    Timestamp,
    host::{BreakerView, ProbeView, RouteHealth, UpstreamView},
};
use http::StatusCode;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    Control,
    engine_http::{NoAnswer, get},
    probe::{self, Probed},
};

/// Probes that are remembered of each engine.
const HISTORY: usize = 60;
const AT_ONCE: usize = 16;

/// What is known of each served name's engine.
#[derive(Default)]
pub struct Upstreams(Mutex<HashMap<String, Seen>>);

/// Of one engine, as long as it stays the same.
#[derive(Debug, Default)]
struct Seen {
    upstream: u64,
    last_ok_at: Option<Timestamp>,
    last_error: Option<String>,
    latency: Option<Duration>,
    failures: u32,
    models: Vec<String>,
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
}

impl Look {
    fn bad(latency: Option<Duration>, error: impl Into<String>) -> Self {
        Self { latency, error: Some(error.into()), models: None }
    }
}

impl From<Probed> for Look {
    fn from(it: Probed) -> Self {
        let error = it.error().map(str::to_owned);
        Self { latency: it.latency, models: error.is_none().then_some(it.models), error }
    }
}

impl Upstreams {
    /// Notes a probe of the engine behind `name`; `upstream` tells one engine from the next.
    pub(crate) fn note(&self, name: &str, upstream: u64, at: Timestamp, look: Look) {
        let Look { latency, error, models } = look;
        let probe = Probe { at, latency, error };
        let mut all = self.lock();
        let seen = all.entry(name.to_owned()).or_default();
        if seen.upstream != upstream {
            *seen = Seen { upstream, ..Seen::default() };
        }
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
        }
        if seen.history.len() >= HISTORY {
            seen.history.pop_front();
        }
        seen.history.push_back(probe);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// All engines, by served name.
    pub fn upstreams(&self) -> Vec<UpstreamView> {
        let (catalog, now) = (self.shared.catalog.load(), Instant::now());
        let seen = self.upstreams.lock();
        let engines = catalog.routes.values().filter(|it| it.adapter_of.is_none());
        let mut views: Vec<_> = engines.map(|route| view(route, seen.get(&route.served_name), now)).collect();
        views.sort_by(|a, b| a.served_name.cmp(&b.served_name));
        views
    }

    /// Whether a request to this name may be expected to succeed; `None` if nothing has the name.
    pub fn route_health(&self, served_name: &str) -> Option<RouteHealth> {
        let catalog = self.shared.catalog.load();
        let route = catalog.routes.get(served_name)?;
        let RouteTarget::Up(upstream) = &route.target else {
            return Some(RouteHealth::Down);
        };
        let (seen, now) = (self.upstreams.lock(), Instant::now());
        let seen = seen.get(served_name).filter(|it| it.upstream == upstream.id);
        Some(health(route, upstream, seen, now))
    }

    /// Probes the engines of these served names now, of all without a list. Names without an engine are left out.
    pub async fn probe_upstreams(&self, names: Option<&[String]>) {
        self.probe_routes(|route| names.is_none_or(|names| names.contains(&route.served_name))).await;
    }

    async fn probe_routes(&self, wanted: impl Fn(&Route) -> bool) {
        let catalog = self.shared.catalog.load_full();
        let wanted =
            catalog.routes.values().filter(|it| it.adapter_of.is_none() && wanted(it)).filter_map(|route| {
                let RouteTarget::Up(upstream) = &route.target else { return None };
                Some((route.served_name.clone(), Arc::clone(upstream)))
            });
        let wanted: Vec<_> = wanted.collect();
        let probes = wanted.into_iter().map(async |(name, upstream)| {
            let at = self.clock.now();
            let Some(look) = ask(&upstream).await else { return };
            judge(&upstream, look.error.is_none());
            self.upstreams.note(&name, upstream.id, at, look);
        });
        stream::iter(probes).buffer_unordered(AT_ONCE).collect::<()>().await;
        self.upstreams.lock().retain(|name, _| catalog.routes.contains_key(name));
    }
}

/// Feeds the breaker with a probe, as requests do. A good one counts while it is not closed, as the trial; while it is
/// closed it says nothing about requests, and must not forgive an engine that fails every one of them.
pub(crate) fn judge(upstream: &Upstream, good: bool) {
    let (breaker, now) = (&upstream.breaker, Instant::now());
    if !good {
        breaker.record(Verdict::Failure, now);
    } else if breaker.snapshot(now).state != breaker::State::Closed {
        breaker.record(Verdict::Success, now);
    }
}

/// `None`: the gateway itself lacks what that takes. Of an engine entered by hand the key is its own, if it has one: the internal key stays with our containers.
async fn ask(upstream: &Upstream) -> Option<Look> {
    let started = Instant::now();
    let asked = get(upstream.authority(), "/v1/models", upstream.auth(), probe::TIMEOUT).await;
    let latency = Some(started.elapsed());
    Some(match asked {
        Ok((StatusCode::OK, body)) => match probe::names(&body) {
            Some(models) => Look { latency, error: None, models: Some(models) },
            None => Look::bad(latency, probe::NO_LIST),
        },
        Ok((StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _)) => Look::bad(latency, probe::KEY_REFUSED),
        Ok((status, _)) => Look::bad(latency, format!("/v1/models answers {}", status.as_u16())),
        Err(NoAnswer::Closed(detail)) => Look::bad(None, detail),
        Err(NoAnswer::TimedOut) => Look::bad(None, probe::NO_ANSWER),
        Err(NoAnswer::NotAsked(error)) => {
            warn!(%error, "an engine can't be probed");
            return None;
        }
    })
}

fn view(route: &Route, seen: Option<&Seen>, now: Instant) -> UpstreamView {
    let upstream = match &route.target {
        RouteTarget::Up(upstream) => Some(upstream),
        RouteTarget::Returning { .. } | RouteTarget::Elsewhere | RouteTarget::Down { .. } => None,
    };
    // What was seen of an engine that was replaced says nothing of this one.
    let seen = seen.filter(|seen| upstream.is_none_or(|it| it.id == seen.upstream));
    let snapshot = upstream.map(|it| it.breaker.snapshot(now));
    let health = upstream.map_or(RouteHealth::Down, |it| health(route, it, seen, now));
    let probes_fail = seen.is_some_and(|it| it.failures > 0);
    let ms = |it: Duration| crate::machine::host::tenths(it.as_secs_f64() * 1e3);
    UpstreamView {
        served_name: route.served_name.clone(),
        url: upstream.map(|it| format!("http://{}", it.authority())),
        task: route.task,
        engine_type: route.engine,
        source: if route.engine.is_some() { "managed" } else { "manual" },
        healthy: health.is_ok(),
        last_ok_at: seen.and_then(|it| it.last_ok_at).map(Timestamp::rfc3339),
        last_error: trouble(health, snapshot)
            .filter(|_| !probes_fail)
            .or_else(|| seen.and_then(|it| it.last_error.clone())),
        latency_ms: seen.and_then(|it| it.latency).map(ms),
        // Of probes, or of requests, as far as they are not forgiven.
        consecutive_failures: seen.map_or(0, |it| it.failures).max(snapshot.map_or(0, |it| it.failures)),
        breaker: BreakerView {
            state: breaker_text(snapshot.map_or(breaker::State::Closed, |it| it.state)),
            cooldown_remaining_sec: snapshot
                .and_then(|it| it.retry_in)
                .map_or(0.0, |it| crate::machine::host::tenths(it.as_secs_f64())),
        },
        in_flight: upstream.map_or(0, |it| it.in_flight.load(Relaxed)),
        models: seen.map(|it| it.models.clone()).unwrap_or_default(),
        history: seen.into_iter().flat_map(|it| &it.history).map(|it| probe_view(it, ms)).collect(),
    }
}

/// Of an engine of ours that was not probed here yet another probe said that it is ready; of one that was entered by hand
/// nobody did.
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

/// What is wrong beside what probes see.
fn trouble(health: RouteHealth, snapshot: Option<breaker::Snapshot>) -> Option<String> {
    match (health, snapshot) {
        (RouteHealth::Stalled { silent_sec }, _) => {
            Some(format!("it has sent nothing for {silent_sec} s while requests wait for it"))
        }
        (RouteHealth::Failing { for_some: true, .. }, Some(it)) => Some(format!(
            "{} requests to it got errors in a row, all of the same one or two callers, and only they are given a pause",
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
    let mut ticks = tokio::time::interval(control.config.probe_every.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        control.probe_routes(|route| route.engine.is_none()).await;
    }
}
