//! `/admin/system`: the machine now and over the last day, what it is, and what the gateway does on it.

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode,
    host::{Capabilities, HostNow, Throughput, Trends},
};
use serde_json::{Value, json};

use crate::{
    App,
    error::{Outcome, Problem},
    operation::Params,
};

/// Longest look back, in minutes: samples are kept for that long.
const MAX_MINUTES: i64 = 1440;

/// The machine in short
///
/// Processors, memory, disk and GPUs together; `host/summary` has all of it.
pub(crate) async fn summary(app: State<App>, params: Params) -> Outcome<Json<Value>> {
    params.finish()?;
    let host = app.monitor.host().await.ok_or_else(hangs)?;
    let sum = |value: &dyn Fn(&gantry_domain::host::GpuNow) -> Option<u64>| {
        host.gpus
            .iter()
            .map(value)
            .try_fold(0, |sum, it| it.map(|it| sum + it))
            .filter(|_| !host.gpus.is_empty())
    };
    Ok(Json(json!({
        "ts": host.ts,
        "cpu": { "count": host.cpu_count, "util_pct": host.cpu_util_pct, "load_avg": host.load_avg },
        "memory": { "total_mb": host.mem_total_mb, "used_mb": host.mem_used_mb },
        "disk": { "used_pct": host.disk_used_pct, "file_systems": host.disks },
        "gpu": {
            "count": host.gpus.len(),
            "mem_total_mb": sum(&|it| it.mem_total_mb),
            "mem_used_mb": sum(&|it| it.mem_used_mb),
            "util_pct_max": host.gpus.iter().filter_map(|it| it.util_pct).max(),
        },
        "gateway": host.gateway,
        "uptime_sec": host.uptime_sec,
    })))
}

/// What the gateway does
///
/// From the gateway's own counters over `window_sec` seconds, about a minute. Percentiles are of whole requests and of
/// the time to the first byte of streams, and `null` when there was none.
pub(crate) async fn throughput(app: State<App>, params: Params) -> Outcome<Json<Throughput>> {
    params.finish()?;
    Ok(Json(app.monitor.throughput()))
}

/// The machine now
///
/// Measured for this answer; rates are since the look before (10 s ago at most). What can't be measured is `null`.
pub(crate) async fn now(app: State<App>, params: Params) -> Outcome<Json<HostNow>> {
    params.finish()?;
    Ok(Json(app.monitor.host().await.ok_or_else(hangs)?))
}

/// The machine over time
///
/// `minutes` 1 to 1440, default 60. A sample is taken every 10 s and kept for a day, in memory; times without samples
/// have no point. Long spans are averaged: a point stands for `interval_sec` seconds. Network is in bytes a second.
pub(crate) async fn trends(app: State<App>, mut params: Params) -> Outcome<Json<Trends>> {
    let minutes = params.number("minutes", 60, MAX_MINUTES)?;
    params.finish()?;
    Ok(Json(app.monitor.trends(minutes.unsigned_abs()).await.ok_or_else(ApiError::internal)?))
}

/// What the gateway runs on
///
/// System, kernel, container, control groups, container runtime, GPU tools, and which providers of figures were found,
/// or why not.
pub(crate) async fn capabilities(app: State<App>, params: Params) -> Outcome<Json<Capabilities>> {
    params.finish()?;
    Ok(Json(app.monitor.capabilities().await.ok_or_else(ApiError::internal)?))
}

fn hangs() -> Problem {
    Problem::new(
        ErrorCode::HostUnavailable,
        "the machine could not be looked at: a file system does not answer",
    )
}
