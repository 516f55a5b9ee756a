//! Probes of all engines that requests are routed to, for people to look at: is it there, how fast, what does it list,
//! and how was it before. Whether requests go there is decided elsewhere (breaker, reconciler).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use gantry_dataplane::{Route, RouteTarget, Upstream, UpstreamHealth, breaker};
use gantry_domain::{
    Timestamp,
    host::{BreakerView, ProbeView, UpstreamView},
};
use http::StatusCode;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{
    Control,
    engine_http::{NoAnswer, get},
};

/// Probes that are remembered of each engine.
const HISTORY: usize = 60;
const TIMEOUT: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 16;
/// Names of an engine's list that are kept, and characters of each.
const MAX_MODELS: usize = 100;
const MAX_NAME: usize = 200;

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

/// The part of `/v1/models` that matters.
#[derive(Deserialize)]
struct Listing {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

impl Upstreams {
    fn note(&self, name: &str, upstream: u64, probe: Probe, models: Option<Vec<String>>) {
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
        let mut views: Vec<_> =
            catalog.routes.values().map(|route| view(route, seen.get(&route.served_name), now)).collect();
        views.sort_by(|a, b| a.served_name.cmp(&b.served_name));
        views
    }

    /// Probes the engines of these served names now, of all without a list. Names without an engine are left out.
    pub async fn probe_upstreams(&self, names: Option<&[String]>) {
        let catalog = self.shared.catalog.load_full();
        let wanted = catalog.routes.values().filter_map(|route| {
            let RouteTarget::Up(upstream) = &route.target else { return None };
            let is_wanted = names.is_none_or(|names| names.contains(&route.served_name));
            is_wanted.then(|| (route.served_name.clone(), Arc::clone(upstream)))
        });
        let wanted: Vec<_> = wanted.collect();
        let probes = wanted.into_iter().map(async |(name, upstream)| {
            let (at, started) = (self.clock.now(), Instant::now());
            let (answered, result) = ask(&upstream).await;
            let latency = answered.then(|| started.elapsed());
            let (error, models) = match result {
                Ok(models) => (None, Some(models)),
                Err(error) => (Some(error), None),
            };
            self.upstreams.note(&name, upstream.id, Probe { at, latency, error }, models);
        });
        stream::iter(probes).buffer_unordered(AT_ONCE).collect::<()>().await;
        self.upstreams.lock().retain(|name, _| catalog.routes.contains_key(name));
    }
}

/// Whether it answered, and the names that it lists.
async fn ask(upstream: &Upstream) -> (bool, Result<Vec<String>, String>) {
    // Of an engine entered by hand this is its own key, if it has one: the internal key stays with our containers.
    match get(upstream.authority(), "/v1/models", upstream.auth(), TIMEOUT).await {
        Ok((StatusCode::OK, body)) => {
            let listing = serde_json::from_slice::<Listing>(&body);
            let names =
                listing.map(|it| it.data.into_iter().take(MAX_MODELS).map(|it| cut(&it.id)).collect());
            (true, names.map_err(|_| "/v1/models answers something else than a list".to_owned()))
        }
        Ok((StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _)) => {
            (true, Err("the engine refuses the key".to_owned()))
        }
        Ok((status, _)) => (true, Err(format!("/v1/models answers {}", status.as_u16()))),
        Err(NoAnswer::Closed(detail)) => (false, Err(detail)),
        Err(NoAnswer::TimedOut) => (false, Err("no answer in time".to_owned())),
    }
}

fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

fn view(route: &Route, seen: Option<&Seen>, now: Instant) -> UpstreamView {
    let upstream = match &route.target {
        RouteTarget::Up(upstream) => Some(upstream),
        RouteTarget::Returning { .. } | RouteTarget::Down { .. } => None,
    };
    // What was seen of an engine that was replaced says nothing of this one.
    let seen = seen.filter(|seen| upstream.is_none_or(|it| it.id == seen.upstream));
    let snapshot = upstream.map(|it| it.breaker.snapshot(now));
    let ms = |it: Duration| crate::machine::host::tenths(it.as_secs_f64() * 1e3);
    UpstreamView {
        served_name: route.served_name.clone(),
        url: upstream.map(|it| format!("http://{}", it.authority())),
        task: route.task,
        engine_type: route.engine,
        source: if route.engine.is_some() { "managed" } else { "manual" },
        healthy: upstream.is_some_and(|it| it.health(now) == UpstreamHealth::Ok)
            && seen.is_none_or(|it| it.failures == 0),
        last_ok_at: seen.and_then(|it| it.last_ok_at).map(Timestamp::rfc3339),
        last_error: seen.and_then(|it| it.last_error.clone()),
        latency_ms: seen.and_then(|it| it.latency).map(ms),
        consecutive_failures: seen.map_or(0, |it| it.failures),
        breaker: BreakerView {
            state: match snapshot.map_or(breaker::State::Closed, |it| it.state) {
                breaker::State::Closed => "closed",
                breaker::State::Open => "open",
                breaker::State::HalfOpen => "half_open",
            },
            cooldown_remaining_sec: snapshot
                .and_then(|it| it.retry_in)
                .map_or(0.0, |it| crate::machine::host::tenths(it.as_secs_f64())),
        },
        in_flight: upstream.map_or(0, |it| it.in_flight.load(Relaxed)),
        models: seen.map(|it| it.models.clone()).unwrap_or_default(),
        history: seen.into_iter().flat_map(|it| &it.history).map(|it| probe_view(it, ms)).collect(),
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

/// Probes until `stop`.
pub async fn run(control: Arc<Control>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(control.config.probe_every.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        control.probe_upstreams(None).await;
    }
}
