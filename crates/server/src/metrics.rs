//! The Prometheus listener: `GET /metrics` on an address of its own.

use std::{
    fmt::Write,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use axum::{Router, extract::State, http::header::CONTENT_TYPE, response::IntoResponse, routing::get};
use gantry_dataplane::{
    Histogram, Shared,
    limits::{Kind, Limiter},
};
use gantry_domain::usage::Outcome;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// The socket that was handed over, or a new one at `address`.
///
/// # Errors
/// The address is taken, or not ours.
pub(crate) async fn listener(
    given: Option<std::net::TcpListener>,
    address: SocketAddr,
) -> std::io::Result<TcpListener> {
    match given {
        Some(listener) => {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        }
        None => TcpListener::bind(address).await,
    }
}

pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let router = Router::new().route("/metrics", get(render)).with_state(shared);
    let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
    if let Err(error) = served {
        error!(error = &error as &dyn std::error::Error, "the metrics listener failed");
    }
}

async fn render(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text(&shared))
}

/// The text format 0.0.4 of Prometheus.
fn text(shared: &Shared) -> String {
    let counters = &shared.counters;
    let mut out = String::with_capacity(4096);
    let head = |out: &mut String, name: &str, kind: &str, help: &str| {
        let _ = write!(out, "# HELP gantry_{name} {help}\n# TYPE gantry_{name} {kind}\n");
    };
    head(
        &mut out,
        "requests_total",
        "counter",
        "Inference requests that passed authentication, by how they ended.",
    );
    for outcome in Outcome::ALL {
        let n = counters.requests_with(outcome);
        let _ = writeln!(out, "gantry_requests_total{{outcome=\"{}\"}} {n}", outcome.as_str());
    }
    let plain = [
        ("requests_refused_total", "counter", "Requests refused with 401 or 403.", &counters.refused),
        ("in_flight_requests", "gauge", "Inference requests that run.", &counters.in_flight),
        ("streams", "gauge", "Answers that are streaming.", &counters.streams),
        ("connections_total", "counter", "Client connections accepted.", &counters.connections),
        ("connections_open", "gauge", "Client connections open.", &counters.connections_open),
        ("prompt_tokens_total", "counter", "Prompt tokens of all requests.", &counters.prompt_tokens),
        (
            "completion_tokens_total",
            "counter",
            "Generated tokens of all requests.",
            &counters.completion_tokens,
        ),
        ("estimated_rows_total", "counter", "Usage rows with estimated counts.", &counters.estimated),
        ("upstream_connects_total", "counter", "Connections made to engines.", &counters.upstream_connects),
        (
            "upstream_retries_total",
            "counter",
            "Requests repeated on a fresh connection.",
            &counters.upstream_retries,
        ),
        (
            "spool_errors_total",
            "counter",
            "Usage records that could not be written at first.",
            &counters.spool_errors,
        ),
        ("usage_shipped_total", "counter", "Usage rows brought to the database.", &counters.usage_shipped),
        ("usage_replayed_total", "counter", "Those that were there already.", &counters.usage_replayed),
        ("spool_torn_total", "counter", "Damaged places in the usage spool.", &counters.spool_torn),
        (
            "spool_backlog_bytes",
            "gauge",
            "Bytes of the usage spool that are not in the database yet.",
            &counters.spool_backlog_bytes,
        ),
        ("panics_total", "counter", "Panics caught in request handlers.", &counters.panics),
    ];
    for (name, kind, help, value) in plain {
        head(&mut out, name, kind, help);
        let _ = writeln!(out, "gantry_{name} {}", value.load(Relaxed));
    }
    for (name, help, histogram) in [
        ("request_duration_seconds", "Whole requests.", &counters.latency),
        ("time_to_first_token_seconds", "First byte of streamed answers.", &counters.ttft),
    ] {
        head(&mut out, name, "histogram", help);
        buckets(&mut out, name, histogram);
    }
    limits(&mut out, &shared.limiter);
    let _ = write!(
        out,
        "# HELP gantry_build_info Version.\n# TYPE gantry_build_info gauge\ngantry_build_info{{version=\"{}\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    );
    out
}

/// Limits and budgets; the labels are the kinds of limits, never keys.
fn limits(out: &mut String, limiter: &Limiter) {
    let counters = &limiter.counters;
    let name = "gantry_limit_decisions_total";
    let _ =
        write!(out, "# HELP {name} Requests that a limit let through or refused.\n# TYPE {name} counter\n");
    for (result, counts) in [("allowed", &counters.allowed), ("refused", &counters.refused)] {
        for kind in Kind::ALL {
            let n = counts[kind as usize].load(Relaxed);
            let _ = writeln!(out, "{name}{{kind=\"{}\",result=\"{result}\"}} {n}", kind.as_str());
        }
    }
    let name = "gantry_limit_shadow_total";
    let help = "Requests that a limit in shadow mode would have refused.";
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} counter\n");
    for kind in Kind::ALL {
        let n = counters.shadow[kind as usize].load(Relaxed);
        let _ = writeln!(out, "{name}{{kind=\"{}\"}} {n}", kind.as_str());
    }
    let (up, gateways) =
        limiter.link.as_ref().map_or((0, 1), |it| (u64::from(it.is_up()), u64::from(it.gateways())));
    for (name, kind, help, value) in [
        (
            "limit_fallback_total",
            "counter",
            "Decisions on this gateway's share of a limit, because Redis could not be reached.",
            counters.fallbacks.load(Relaxed),
        ),
        (
            "limit_redis_failures_total",
            "counter",
            "Exchanges of limits through Redis that failed.",
            counters.link_failures.load(Relaxed),
        ),
        (
            "limit_redis_exchanges_total",
            "counter",
            "Exchanges of limits through Redis that succeeded.",
            counters.exchanges.load(Relaxed),
        ),
        ("limit_redis_up", "gauge", "Whether limits are shared through Redis now.", up),
        ("limit_gateways", "gauge", "Gateways that share the limits, as far as is known.", gateways),
    ] {
        let _ =
            write!(out, "# HELP gantry_{name} {help}\n# TYPE gantry_{name} {kind}\ngantry_{name} {value}\n");
    }
}

fn buckets(out: &mut String, name: &str, histogram: &Histogram) {
    let mut sum = 0;
    for (index, bucket) in histogram.buckets.iter().enumerate() {
        sum += bucket.load(Relaxed);
        let bound = Histogram::BOUNDS_MS.get(index).map_or_else(
            || "+Inf".to_owned(),
            // Milliseconds are exact in seconds with three decimals.
            |ms| format!("{}", *ms as f64 / 1000.0),
        );
        let _ = writeln!(out, "gantry_{name}_bucket{{le=\"{bound}\"}} {sum}");
    }
    let seconds = histogram.sum_ms.load(Relaxed) as f64 / 1000.0;
    let _ = write!(out, "gantry_{name}_sum {seconds}\ngantry_{name}_count {sum}\n");
}
