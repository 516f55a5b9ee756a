//! `/admin/usage/latency` and `/admin/usage/ttft`.

use axum::{Json, extract::State};
use gantry_store::TimeKind;
use serde::Serialize;

use super::{Whose, filter};
use crate::{App, error::Outcome, operation::Params, policy::Caller};

/// Milliseconds; `null` where there is no sample. Percentiles are within 1 %, the average is exact.
#[derive(Debug, Serialize)]
pub(crate) struct Durations {
    p50_ms: Option<i64>,
    p95_ms: Option<i64>,
    p99_ms: Option<i64>,
    avg_ms: Option<f64>,
    samples: u64,
}

/// Latency
///
/// From the request's arrival to the last byte of its answer, of all requests that match: refused ones too, unless
/// `outcome=ok` leaves them out.
pub(crate) async fn latency(app: State<App>, caller: Caller, params: Params) -> Outcome<Json<Durations>> {
    durations(&app, &caller, params, TimeKind::Latency).await
}

/// Time to first token
///
/// Of streamed answers.
pub(crate) async fn ttft(app: State<App>, caller: Caller, params: Params) -> Outcome<Json<Durations>> {
    durations(&app, &caller, params, TimeKind::Ttft).await
}

async fn durations(
    app: &App,
    caller: &Caller,
    mut params: Params,
    kind: TimeKind,
) -> Outcome<Json<Durations>> {
    let filter = filter(&mut params, Whose::managed_by(caller), app.clock.now())?;
    params.finish()?;
    let _place = app.long_reads.begin(caller.user.id).await?;
    let times = app.store.read().await?.usage_times(&filter, kind).await?;
    let samples = times.histogram.samples();
    let percentile = |p| times.histogram.percentile(p);
    Ok(Json(Durations {
        p50_ms: percentile(0.5),
        p95_ms: percentile(0.95),
        p99_ms: percentile(0.99),
        avg_ms: (samples > 0).then(|| (times.sum_ms as f64 / samples as f64 * 100.0).round() / 100.0),
        samples,
    }))
}
