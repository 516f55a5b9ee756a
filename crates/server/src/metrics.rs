//! The Prometheus listener: `GET /metrics` on an address of its own. Families are those of
//! [`gantry_domain::metrics`].

mod page;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{
    Router,
    extract::{Request, State},
    http::{header::CONTENT_TYPE, uri::Authority},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use gantry_control::{Control, machine::host};
use gantry_dataplane::{
    Catalog, Histogram, ModelStats, Retry, RouteTarget,
    limits::{LimitKind, Limiter},
    stats::{CLASSES, MAX_MODELS, OTHER},
};
use gantry_domain::{
    ApiError, ErrorCode,
    endpoint::Endpoint,
    host::{HostNow, UpstreamView},
    metrics::{self, Metric},
    model::State as ModelState,
    usage::Outcome,
    web::Web,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::page::Page;
use crate::otlp;

/// Most connections at once. A scraper needs one, but the listener may be open to a network.
const MAX_CONNECTIONS: usize = 64;
/// Longest wait for the head of a request, also between two requests on one connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest life of a connection. It then closes after the answer in progress, so that a client that does not read its
/// answer does not hold a place for ever.
const LIFETIME: Duration = Duration::from_mins(1);
/// Longest time for that last answer.
const GRACE: Duration = Duration::from_secs(2);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Returns the socket that was handed over, or a new one at `address`.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub(crate) async fn listener(
    given: Option<std::net::TcpListener>,
    address: SocketAddr,
) -> anyhow::Result<TcpListener> {
    let open = match given {
        Some(listener) => listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)),
        None => TcpListener::bind(address).await,
    };
    open.with_context(|| format!("can't listen on {address} (METRICS_LISTEN)"))
}

/// Where the numbers come from.
#[derive(Clone)]
pub(crate) struct Source {
    pub control: Arc<Control>,
    /// Lines of the access log that were dropped.
    pub access_dropped: Arc<AtomicU64>,
    pub spans: otlp::Counts,
    /// Seconds since the epoch.
    pub started: f64,
    /// Names that this gateway goes by.
    pub web: Web,
}

pub(crate) async fn serve(listener: TcpListener, source: Source, stop: CancellationToken) {
    let names = source.web.clone();
    let router = Router::new()
        .route("/metrics", get(render))
        .fallback(|request: Request| async move {
            refused(&request, ErrorCode::UnknownRoute, "there is only /metrics here")
        })
        .method_not_allowed_fallback(|request: Request| async move {
            refused(&request, ErrorCode::MethodNotAllowed, "/metrics takes GET only")
        })
        .with_state(source)
        // Unknown host names are refused: otherwise a page of another site could read the numbers through its own host
        // name that resolves to this address (DNS rebinding).
        .layer(middleware::from_fn_with_state(names, known_host));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            // Connections beyond the limit wait in the socket's queue.
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => drop(connections.spawn(answer(stream, router.clone(), stop.clone()))),
                Err(error) => {
                    // Usually all file descriptors are in use; some become free again soon.
                    debug!(%error, "the metrics listener can't take a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // Every connection ends by itself soon, because `stop` was cancelled.
    while connections.join_next().await.is_some() {}
}

/// Serves a connection until the client closes it, `stop` is cancelled, or `LIFETIME` is over.
async fn answer(stream: TcpStream, router: Router, stop: CancellationToken) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = async { tokio::select! { () = stop.cancelled() => {}, () = sleep(LIFETIME) => {} } } => {
            connection.as_mut().graceful_shutdown();
            timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection of the metrics listener ended early");
    }
}

fn refused(request: &Request, code: ErrorCode, message: &str) -> Response {
    gantry_admin_api::error_answer(request.headers(), &ApiError::new(code, message))
}

async fn known_host(State(web): State<Web>, request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(Authority::as_str);
    if web.knows_host(request.headers(), authority) {
        return next.run(request).await;
    }
    gantry_admin_api::error_answer(request.headers(), &web.unknown_host(request.headers(), authority))
}

async fn render(State(source): State<Source>) -> impl IntoResponse {
    let host = source.control.host_now().await.unwrap_or_default();
    let mut page = Page(String::with_capacity(32 << 10));
    page.requests(&source.control);
    page.engines(&source.control);
    page.own_work(&source);
    page.limits(&source.control.shared.limiter);
    page.machine(&host, &source);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0)
}

impl Page {
    fn histograms(
        &mut self,
        metric: Metric,
        models: &[(String, Arc<ModelStats>)],
        of: fn(&ModelStats) -> &Histogram,
    ) {
        self.head(metric);
        for (name, stats) in models {
            self.histogram(metric, name, of(stats));
        }
    }

    fn requests(&mut self, control: &Control) {
        let counters = &control.shared.counters;
        self.head(metrics::REQUESTS);
        for outcome in Outcome::ALL {
            let n = counters.requests_with(outcome);
            self.line(metrics::REQUESTS, "", &[outcome.as_str()], None, n);
        }
        let models = control.shared.stats.all();
        self.requests_of_models(&models);
        self.one(metrics::REFUSED, Some(counters.refused.load(Relaxed)));
        self.times_and_tokens(&models);
        for (metric, value) in [
            (metrics::ESTIMATED, &counters.estimated),
            (metrics::IN_FLIGHT, &counters.in_flight),
            (metrics::STREAMS, &counters.streams),
            (metrics::CONNECTIONS, &counters.connections),
            (metrics::CONNECTIONS_OPEN, &counters.connections_open),
            (metrics::CONNECTS, &counters.upstream_connects),
            (metrics::SPOOL_ERRORS, &counters.spool_errors),
            (metrics::REFUSALS_DROPPED, &counters.refusals_dropped),
            (metrics::PANICS, &counters.panics),
        ] {
            self.one(metric, Some(value.load(Relaxed)));
        }
        self.head(metrics::RETRIES);
        for (retry, n) in Retry::ALL.iter().zip(&counters.upstream_retries) {
            self.line(metrics::RETRIES, "", &[retry.as_str()], None, n.load(Relaxed));
        }
        self.head(metrics::CONNECTIONS_REFUSED);
        for (why, value) in [
            ("full", &counters.connections_refused_full),
            ("address", &counters.connections_refused_address),
            ("silent", &counters.connections_displaced),
        ] {
            self.line(metrics::CONNECTIONS_REFUSED, "", &[why], None, value.load(Relaxed));
        }
    }

    fn requests_of_models(&mut self, models: &[(String, Arc<ModelStats>)]) {
        self.head(metrics::MODEL_REQUESTS);
        for (name, stats) in models {
            for (endpoint, classes) in Endpoint::ALL.iter().zip(&stats.requests) {
                let counts = CLASSES.iter().zip(classes).map(|(class, n)| (class, n.load(Relaxed)));
                // Most models never see most endpoints.
                for (class, n) in counts.filter(|(_, n)| *n > 0) {
                    self.line(metrics::MODEL_REQUESTS, "", &[name, endpoint.path(), class], None, n);
                }
            }
        }
    }

    fn times_and_tokens(&mut self, models: &[(String, Arc<ModelStats>)]) {
        self.histograms(metrics::DURATION, models, |it| &it.latency);
        self.histograms(metrics::TTFT, models, |it| &it.ttft);
        self.histograms(metrics::GAP, models, |it| &it.gaps);
        self.head(metrics::TOKENS);
        for (name, stats) in models {
            let kinds = [
                ("prompt", &stats.prompt_tokens),
                ("cached", &stats.cached_tokens),
                ("completion", &stats.completion_tokens),
            ];
            for (kind, n) in kinds {
                self.line(metrics::TOKENS, "", &[name, kind], None, n.load(Relaxed));
            }
        }
    }

    fn engines(&mut self, control: &Control) {
        let catalog = control.shared.catalog.load();
        self.models(control, &catalog);
        self.upstreams(control, &catalog);
    }

    fn models(&mut self, control: &Control, catalog: &Catalog) {
        let state = |target: &RouteTarget| match target {
            RouteTarget::Up(_) | RouteTarget::AnyOf(_) | RouteTarget::Elsewhere => ModelState::Running,
            RouteTarget::Returning { .. } => ModelState::Starting,
            RouteTarget::Down { state } => *state,
        };
        let managed: Vec<_> =
            catalog.routes.values().filter(|it| it.engine.is_some()).map(|it| state(&it.target)).collect();
        self.head(metrics::MODELS);
        for state in ModelState::ALL {
            let n = managed.iter().filter(|it| **it == state).count();
            self.line(metrics::MODELS, "", &[state.as_str()], None, n);
        }
        self.head(metrics::RESTARTS);
        for (name, reason, n) in control.restarts.all() {
            self.line(metrics::RESTARTS, "", &[&name, reason], None, n);
        }
        self.one(metrics::GIVEN_UP, Some(control.runtime_status.given_up()));
    }

    fn upstreams(&mut self, control: &Control, catalog: &Catalog) {
        let views = control.upstreams();
        // Entries of one served name are next to each other.
        let engines = views.chunk_by(|a, b| a.served_name == b.served_name);
        let engines: Vec<(&str, &[UpstreamView])> = engines
            .filter_map(|it| Some((it.first()?.served_name.as_str(), it)))
            .take(MAX_MODELS)
            .filter(|(name, _)| *name != OTHER)
            .collect();
        self.head(metrics::SIMULATED);
        for (name, _) in &engines {
            if catalog.routes.get(*name).is_some_and(|it| it.simulator) {
                self.line(metrics::SIMULATED, "", &[name], None, 1);
            }
        }
        self.head(metrics::WAITING);
        for (name, _) in &engines {
            self.line(metrics::WAITING, "", &[name], None, control.shared.waiting(name));
        }
        self.head(metrics::UPSTREAM_UP);
        for (name, all) in &engines {
            self.line(metrics::UPSTREAM_UP, "", &[name], None, u8::from(all.iter().any(|it| it.healthy)));
        }
        self.head(metrics::UPSTREAM_IN_FLIGHT);
        for (name, all) in &engines {
            let in_flight: u32 = all.iter().map(|it| it.in_flight).sum();
            self.line(metrics::UPSTREAM_IN_FLIGHT, "", &[name], None, in_flight);
        }
        self.head(metrics::BREAKER);
        for (name, all) in &engines {
            let has = |state: &str| all.iter().any(|it| it.breaker.state == state);
            let now = ["closed", "half_open", "open"].into_iter().find(|it| has(it));
            for state in ["closed", "open", "half_open"] {
                self.line(metrics::BREAKER, "", &[name, state], None, u8::from(now == Some(state)));
            }
        }
        let up = |name: &str| catalog.routes.get(name).map_or(&[][..], |it| it.target.upstreams());
        let up: Vec<_> =
            engines.iter().map(|(name, _)| (*name, up(name))).filter(|it| !it.1.is_empty()).collect();
        self.head(metrics::BREAKER_OPENED);
        for (name, upstreams) in &up {
            let now = Instant::now();
            let opened: u64 = upstreams.iter().map(|it| it.breaker.snapshot(now).opened).sum();
            self.line(metrics::BREAKER_OPENED, "", &[name], None, opened);
        }
        self.head(metrics::STALLS);
        for (name, upstreams) in &up {
            let stalls: u64 = upstreams.iter().map(|it| it.progress.stalls()).sum();
            self.line(metrics::STALLS, "", &[name], None, stalls);
        }
    }

    fn own_work(&mut self, source: &Source) {
        let (control, counters) = (&source.control, &source.control.shared.counters);
        for (metric, value) in [
            (metrics::USAGE_SHIPPED, &counters.usage_shipped),
            (metrics::USAGE_REPLAYED, &counters.usage_replayed),
            (metrics::USAGE_FAILURES, &counters.usage_failures),
            (metrics::SPOOL_PENDING, &counters.spool_backlog_bytes),
            (metrics::SPOOL_TORN, &counters.spool_torn),
            (metrics::SPOOL_MISSING, &counters.spool_missing),
            (metrics::ACCESS_DROPPED, &*source.access_dropped),
            (metrics::ORPHANS, &control.orphans_stopped),
        ] {
            self.one(metric, Some(value.load(Relaxed)));
        }
        self.one(metrics::UNREADABLE, Some(control.publisher.unreadable() as u64));
        self.one(metrics::LISTS_UNREADABLE, Some(gantry_store::left_out() as u64));
        let drill = control.drills.last();
        let proven = drill.as_ref().and_then(|it| it.proven_at);
        self.one(metrics::DRILL_SUCCESS, proven.map(|it| it.0 as f64 / 1000.0));
        self.one(metrics::DRILL_RESULT, drill.map(|it| u8::from(it.error.is_none())));
        self.one(metrics::BODY_BYTES, Some(control.shared.body_memory.used() as u64));
        self.head(metrics::TRACE_SPANS);
        let otlp::Counts { exported, rejected, dropped } = &source.spans;
        for (result, n) in [("exported", exported), ("rejected", rejected), ("dropped", dropped)] {
            self.line(metrics::TRACE_SPANS, "", &[result], None, n.load(Relaxed));
        }
    }

    /// Limits and budgets; the labels are the kinds of limits, never keys.
    fn limits(&mut self, limiter: &Limiter) {
        let counters = &limiter.counters;
        self.head(metrics::LIMIT_DECISIONS);
        for (result, counts) in [("allowed", &counters.allowed), ("refused", &counters.refused)] {
            for kind in LimitKind::ALL {
                let n = counts[kind as usize].load(Relaxed);
                self.line(metrics::LIMIT_DECISIONS, "", &[kind.as_str(), result], None, n);
            }
        }
        self.head(metrics::LIMIT_SHADOW);
        for kind in LimitKind::ALL {
            let n = counters.shadow[kind as usize].load(Relaxed);
            self.line(metrics::LIMIT_SHADOW, "", &[kind.as_str()], None, n);
        }
        for (metric, value) in [
            (metrics::LIMIT_FALLBACK, &counters.fallbacks),
            (metrics::LIMIT_FAILURES, &counters.link_failures),
            (metrics::LIMIT_EXCHANGES, &counters.exchanges),
        ] {
            self.one(metric, Some(value.load(Relaxed)));
        }
        let link = limiter.link.as_ref();
        self.one(metrics::LIMIT_REDIS_UP, Some(link.map_or(0, |it| u8::from(it.is_up()))));
        self.one(metrics::LIMIT_GATEWAYS, Some(link.map_or(1, |it| u64::from(it.gateways()))));
    }

    fn machine(&mut self, host: &HostNow, source: &Source) {
        let bytes = |mib: Option<u64>| mib.map(|it| it << 20);
        self.one(metrics::CPU, host.cpu_util_pct.map(|it| it / 100.0));
        self.one(metrics::MEMORY_USED, bytes(host.mem_used_mb));
        self.one(metrics::MEMORY_TOTAL, bytes(host.mem_total_mb));
        self.one(metrics::DISK, host.disk_used_pct.map(|it| it / 100.0));
        for metric in [metrics::GPU_USED, metrics::GPU_TOTAL, metrics::GPU_UTIL, metrics::GPU_TEMPERATURE] {
            self.head(metric);
            for gpu in &host.gpus {
                let value = match metric.name {
                    it if it == metrics::GPU_USED.name => bytes(gpu.mem_used_mb).map(|it| it as f64),
                    it if it == metrics::GPU_TOTAL.name => bytes(gpu.mem_total_mb).map(|it| it as f64),
                    it if it == metrics::GPU_UTIL.name => gpu.util_pct.map(|it| f64::from(it) / 100.0),
                    _ => gpu.temperature_c.map(f64::from),
                };
                if let Some(value) = value {
                    self.line(metric, "", &[&gpu.index.to_string()], None, value);
                }
            }
        }
        let process = host::process();
        self.one(metrics::PROCESS_CPU, process.cpu_seconds);
        self.one(metrics::PROCESS_RSS, bytes(process.rss_mb));
        self.one(metrics::PROCESS_FDS, process.open_fds);
        self.one(metrics::PROCESS_START, Some(source.started));
        self.head(metrics::BUILD);
        self.line(metrics::BUILD, "", &[env!("CARGO_PKG_VERSION")], None, 1);
    }
}
