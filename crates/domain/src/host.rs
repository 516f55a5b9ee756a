//! What the gateway tells of its machine, its engines and its own work: the shapes of `/admin/system` and
//! `/admin/upstreams`. What could not be measured is `None`, never a guess.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{EngineKind, Task};

/// The machine at one moment. Sizes are MiB.
#[derive(Debug, Clone, Default, Serialize)]
pub struct HostNow {
    /// RFC 3339.
    pub ts: String,
    /// Of all processors together, 0–100, since the sample before (10 s ago at most).
    pub cpu_util_pct: Option<f64>,
    pub cpu_count: usize,
    /// Over 1, 5 and 15 minutes.
    pub load_avg: Option<[f64; 3]>,
    pub uptime_sec: Option<u64>,
    /// Where the gateway runs in a container with a limit, of that.
    pub mem_total_mb: Option<u64>,
    pub mem_used_mb: Option<u64>,
    pub swap_total_mb: Option<u64>,
    pub swap_used_mb: Option<u64>,
    pub disks: Vec<Disk>,
    /// Of the fullest of `disks`.
    pub disk_used_pct: Option<f64>,
    /// Bytes a second over all interfaces that are not loopback or a container's.
    pub net_rx_bps: Option<u64>,
    pub net_tx_bps: Option<u64>,
    pub gpus: Vec<GpuNow>,
    pub gateway: ProcessNow,
}

/// A file system that the gateway keeps something on.
#[derive(Debug, Clone, Serialize)]
pub struct Disk {
    /// `data`, `models` or `hub_cache`; several where they share it.
    pub holds: Vec<&'static str>,
    pub total_mb: u64,
    pub used_mb: u64,
    /// Of what may be used, as `df` counts.
    pub used_pct: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct GpuNow {
    pub index: u32,
    pub name: String,
    pub mem_total_mb: Option<u64>,
    pub mem_used_mb: Option<u64>,
    pub util_pct: Option<u32>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<f64>,
}

/// The gateway's own process.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct ProcessNow {
    pub rss_mb: Option<u64>,
    pub open_fds: Option<u64>,
    pub threads: Option<u64>,
    /// Since its start.
    pub cpu_seconds: Option<f64>,
}

/// A value at a time (RFC 3339, the end of the interval).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    pub ts: String,
    pub value: f64,
}

/// What was sampled. Times without a sample have no point.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trends {
    /// Seconds that one point stands for (the mean of its samples).
    pub interval_sec: u64,
    pub cpu_util_pct: Vec<Point>,
    pub mem_used_mb: Vec<Point>,
    pub disk_used_pct: Vec<Point>,
    pub net_rx_bps: Vec<Point>,
    pub net_tx_bps: Vec<Point>,
    /// By index.
    pub gpu: BTreeMap<u32, GpuTrends>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct GpuTrends {
    pub util_pct: Vec<Point>,
    pub mem_used_mb: Vec<Point>,
}

/// What the data plane did over the last `window_sec` seconds. Percentiles are `None` without a sample.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Throughput {
    pub req_per_sec: f64,
    pub prompt_tokens_per_sec: f64,
    pub generation_tokens_per_sec: f64,
    pub latency_p50_ms: Option<f64>,
    pub latency_p95_ms: Option<f64>,
    pub ttft_p50_ms: Option<f64>,
    pub ttft_p95_ms: Option<f64>,
    pub active_requests: u64,
    pub active_streams: u64,
    pub window_sec: f64,
}

/// What the gateway runs on.
#[derive(Debug, Clone, Serialize)]
pub struct Capabilities {
    pub os: Os,
    pub container: Container,
    pub cgroup: Cgroup,
    pub cpu: Cpu,
    pub container_runtime: RuntimeFound,
    pub supervision: Supervision,
    pub gpu_toolkit: Found,
    pub monitoring: Vec<Found>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Os {
    /// `Debian GNU/Linux 13 (trixie)`.
    pub name: Option<String>,
    pub kernel: Option<String>,
    pub arch: &'static str,
    /// Windows Subsystem for Linux: 1 or 2.
    pub wsl: Option<u8>,
}

/// Whether the gateway itself runs in a container.
#[derive(Debug, Clone, Serialize)]
pub struct Container {
    pub inside: bool,
    /// What it is known by.
    pub evidence: Option<&'static str>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Cgroup {
    /// 1 or 2; `None`: not found.
    pub version: Option<u8>,
    pub memory_limit_mb: Option<u64>,
    /// In processors.
    pub cpu_limit: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Cpu {
    pub model: Option<String>,
    /// Processors of the machine.
    pub count: usize,
    /// Those that the gateway may use.
    pub usable: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct RuntimeFound {
    pub available: bool,
    pub name: Option<String>,
    pub version: Option<String>,
    pub api_version: Option<String>,
    /// Why not.
    pub detail: Option<String>,
}

/// Which of the gateways on one database acts on the models' containers.
#[derive(Debug, Clone, Serialize)]
pub struct Supervision {
    /// This gateway's: `supervisor`, `follower` (another one supervises), `stranger` (nobody does, and this one must
    /// not, as it does not see the containers) or `unknown`.
    pub role: &'static str,
    pub detail: &'static str,
    /// Name of this gateway; `None` if its database is its own.
    pub gateway: Option<String>,
    /// Which containers it sees; two gateways with the same text see the same.
    pub runtime: Option<String>,
    /// Name of who supervises, or did last.
    pub supervisor: Option<String>,
    pub supervisor_runtime: Option<String>,
    /// RFC 3339.
    pub since: Option<String>,
    /// Requests for managed models can be served here: the engines listen on this machine's loopback.
    pub reaches_engines: bool,
}

/// A provider of something: there, or why not.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub name: &'static str,
    pub available: bool,
    pub detail: String,
}

/// An engine as the gateway's probes see it: one address of a served name.
#[derive(Debug, Clone, Serialize)]
pub struct UpstreamView {
    pub served_name: String,
    /// `None` while it does not run.
    pub url: Option<String>,
    pub task: Task,
    /// `None`: entered by hand.
    pub engine_type: Option<EngineKind>,
    pub source: &'static str,
    /// It gets requests, and its last probe succeeded.
    pub healthy: bool,
    /// RFC 3339.
    pub last_ok_at: Option<String>,
    pub last_error: Option<String>,
    /// Of the last probe that was answered.
    pub latency_ms: Option<f64>,
    /// Probes.
    pub consecutive_failures: u32,
    pub breaker: BreakerView,
    pub in_flight: u32,
    /// What it lists at `/v1/models`.
    pub models: Vec<String>,
    /// The last probes, oldest first.
    pub history: Vec<ProbeView>,
}

#[derive(Debug, Clone, Serialize)]
pub struct BreakerView {
    /// `closed`, `open` or `half_open`.
    pub state: &'static str,
    /// Whom it keeps away while it is not closed: `all`, or `some` (whose requests got errors; the others are served).
    pub keeps_away: Option<&'static str>,
    pub cooldown_remaining_sec: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeView {
    /// RFC 3339.
    pub ts: String,
    pub ok: bool,
    pub latency_ms: Option<f64>,
    pub error: Option<String>,
}

/// Whether requests to a route may be expected to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteHealth {
    Ok,
    /// There is no engine behind it now.
    Down,
    /// It does not answer probes, or not as it should.
    ProbesFail,
    /// It has sent nothing for so many seconds while requests wait.
    Stalled {
        silent_sec: u64,
    },
    /// It failed repeatedly: its breaker is not closed.
    Failing {
        half_open: bool,
        /// Only for few callers, whose requests may be at fault; the others are served.
        for_some: bool,
    },
}

impl RouteHealth {
    pub fn is_ok(self) -> bool {
        self == Self::Ok
    }

    /// Of the engines of one route the one with the lowest speaks for it.
    pub fn rank(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failing { for_some: true, .. } => 1,
            Self::ProbesFail => 2,
            Self::Stalled { .. } => 3,
            Self::Failing { for_some: false, .. } => 4,
            Self::Down => 5,
        }
    }

    /// State of its breaker: `closed`, `open` or `half_open`.
    pub fn breaker(self) -> &'static str {
        match self {
            Self::Ok | Self::Down | Self::ProbesFail | Self::Stalled { .. } => "closed",
            Self::Failing { half_open: false, .. } => "open",
            Self::Failing { half_open: true, .. } => "half_open",
        }
    }
}
