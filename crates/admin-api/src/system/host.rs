//! `/admin/system`: the machine now and over the last day, what it is, and what the gateway does on it.

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode,
    host::{Capabilities, Disk, GpuNow, HostNow, ProcessNow, Throughput, Trends},
    schema::time,
    view,
};

use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Number, Operation, Query, query},
};

/// Longest look back, in minutes: samples are kept for that long.
const MAX_MINUTES: i64 = 1440;

view! {
    /// The most important figures of [`HostNow`].
    #[derive(Debug)]
    pub(crate) struct Summary {
        ts: String as time(),
        cpu: CpuSummary,
        memory: MemorySummary,
        disk: DiskSummary,
        gpu: GpuSummary,
        gateway: ProcessNow,
        uptime_sec: Option<u64>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct CpuSummary {
        count: usize,
        util_pct: Option<f64>,
        /// The load average over 1, 5 and 15 minutes.
        load_avg: Option<[f64; 3]>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct MemorySummary {
        total_mb: Option<u64>,
        used_mb: Option<u64>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct DiskSummary {
        /// The use of the fullest file system.
        used_pct: Option<f64>,
        file_systems: Vec<Disk>,
    }
}

view! {
    /// All GPUs together.
    #[derive(Debug)]
    pub(crate) struct GpuSummary {
        count: usize,
        mem_total_mb: Option<u64>,
        mem_used_mb: Option<u64>,
        /// The use of the busiest GPU.
        util_pct_max: Option<u32>,
    }
}

impl From<HostNow> for Summary {
    fn from(host: HostNow) -> Self {
        Self {
            gpu: GpuSummary::of(&host.gpus),
            ts: host.ts,
            cpu: CpuSummary { count: host.cpu_count, util_pct: host.cpu_util_pct, load_avg: host.load_avg },
            memory: MemorySummary { total_mb: host.mem_total_mb, used_mb: host.mem_used_mb },
            disk: DiskSummary { used_pct: host.disk_used_pct, file_systems: host.disks },
            gateway: host.gateway,
            uptime_sec: host.uptime_sec,
        }
    }
}

impl GpuSummary {
    fn of(gpus: &[GpuNow]) -> Self {
        // A sum is unknown if one of its parts is.
        let sum = |value: fn(&GpuNow) -> Option<u64>| {
            gpus.iter().map(value).sum::<Option<u64>>().filter(|_| !gpus.is_empty())
        };
        Self {
            count: gpus.len(),
            mem_total_mb: sum(|it| it.mem_total_mb),
            mem_used_mb: sum(|it| it.mem_used_mb),
            util_pct_max: gpus.iter().filter_map(|it| it.util_pct).max(),
        }
    }
}

pub(crate) const SUMMARY: Operation = Operation::new("getSystemSummary", "The machine in short")
    .about(
        "Processors, memory, disk and GPUs together; `GET /admin/system/host/summary` says more. Sizes are MiB. What \
         can't be measured is `null`.",
    )
    .errors(&[ErrorCode::HostUnavailable]);

pub(crate) async fn summary(app: State<App>) -> Outcome<Json<Summary>> {
    Ok(Json(app.monitor.host().await.ok_or_else(hangs)?.into()))
}

pub(crate) const THROUGHPUT: Operation = Operation::new("getThroughput", "What the gateway does").about(
    "The figures come from the gateway's own counters over `window_sec` seconds, about a minute. Percentiles are of whole \
     requests and of the time to the first byte of streams, and `null` when there was none.",
);

pub(crate) async fn throughput(app: State<App>) -> Outcome<Json<Throughput>> {
    Ok(Json(app.monitor.throughput()))
}

pub(crate) const NOW: Operation = Operation::new("getHostSummary", "The machine now")
    .about(
        "Everything is measured for this answer; rates are since the measurement before (10 s ago at most). Sizes are \
         MiB, the network is in bytes a second. What can't be measured is `null`.",
    )
    .errors(&[ErrorCode::HostUnavailable]);

pub(crate) async fn now(app: State<App>) -> Outcome<Json<HostNow>> {
    Ok(Json(app.monitor.host().await.ok_or_else(hangs)?))
}

query! {
    pub(crate) struct TrendQuery {
        /// How far back the trends reach.
        minutes: Number<60, MAX_MINUTES>,
    }
}

pub(crate) const TRENDS: Operation = Operation::new("getHostTrends", "The machine over time").about(
    "A sample is taken every 10 s and kept for a day, in memory; times without samples have no point. Long spans are \
     averaged: a point stands for `interval_sec` seconds. The network is in bytes a second.",
);

pub(crate) async fn trends(
    app: State<App>,
    Query(TrendQuery { minutes }): Query<TrendQuery>,
) -> Outcome<Json<Trends>> {
    Ok(Json(app.monitor.trends(minutes.0.unsigned_abs()).await.ok_or_else(ApiError::internal)?))
}

pub(crate) const CAPABILITIES: Operation = Operation::new("getCapabilities", "What the gateway runs on").about(
    "The answer names the system, the kernel, the container, the control groups and the container runtime. It says which \
     of several gateways supervises the models, and which GPU tools and providers of figures were found, or why not.",
);

pub(crate) async fn capabilities(app: State<App>) -> Outcome<Json<Capabilities>> {
    Ok(Json(app.monitor.capabilities().await.ok_or_else(ApiError::internal)?))
}

fn hangs() -> Problem {
    Problem::new(
        ErrorCode::HostUnavailable,
        "the machine could not be looked at: a file system does not answer",
    )
}
