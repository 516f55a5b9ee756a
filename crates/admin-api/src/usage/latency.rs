//! `/admin/usage/latency` and `/admin/usage/ttft`.

use axum::{Json, extract::State};
use gantry_domain::{usage::histogram::Span, view};
use gantry_store::TimeKind;

use super::{READ_ERRORS, filter::Filter};
use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Operation, Query},
};

view! {
    /// How many requests took a time between two bounds.
    #[derive(Debug)]
    pub(crate) struct DurationSpan {
        /// The shortest time.
        from_ms: i64,
        /// The bound above, which belongs to the next span; `null` in the last one, which has no bound.
        to_ms: Option<i64>,
        requests: u64,
    }
}

view! {
    /// Milliseconds; `null` where there is no sample.
    #[derive(Debug)]
    pub(crate) struct Durations {
        p50_ms: Option<i64>,
        p95_ms: Option<i64>,
        p99_ms: Option<i64>,
        /// The exact average.
        avg_ms: Option<f64>,
        samples: u64,
        /// How the samples are spread, from the shortest to the longest: spans whose bounds are each about 1.6 times the one
        /// before. Spans between them without a sample are there, too.
        histogram: Vec<DurationSpan>,
    }
}

impl From<Span> for DurationSpan {
    fn from(span: Span) -> Self {
        Self { from_ms: span.from, to_ms: span.to, requests: span.count }
    }
}

pub(crate) const LATENCY: Operation = Operation::new("getUsageLatency", "Latency")
    .about(
        "The time from the request's arrival to the last byte of its answer, for all requests that match. Refused \
         requests (outcomes `client_error` and `rejected`) count only if `outcome` or `status` asks for them. Percentiles are within 1 %.",
    )
    .errors(READ_ERRORS);

pub(crate) async fn latency(
    app: State<App>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Outcome<Json<Durations>> {
    durations(&app, &caller, filter, TimeKind::Latency).await
}

pub(crate) const TTFT: Operation = Operation::new("getUsageTtft", "Time to first token")
    .about("Only streamed answers have one.")
    .errors(READ_ERRORS);

pub(crate) async fn ttft(
    app: State<App>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Outcome<Json<Durations>> {
    durations(&app, &caller, filter, TimeKind::Ttft).await
}

async fn durations(app: &App, caller: &Caller, filter: Filter, kind: TimeKind) -> Outcome<Json<Durations>> {
    let of = filter.managed_by(caller, app.clock.now())?;
    let _place = app.bounds.long_reads.begin(of.asks).await?;
    let times = app.store.read().await?.usage_times(&of.filter, kind).await?;
    let samples = times.histogram.samples();
    let percentile = |p| times.histogram.percentile(p);
    Ok(Json(Durations {
        p50_ms: percentile(0.5),
        p95_ms: percentile(0.95),
        p99_ms: percentile(0.99),
        avg_ms: (samples > 0).then(|| (times.sum_ms as f64 / samples as f64 * 100.0).round() / 100.0),
        samples,
        histogram: times.histogram.spread().into_iter().map(DurationSpan::from).collect(),
    }))
}
