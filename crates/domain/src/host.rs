//! What the gateway reports about its machine, its engines and its own work: the types behind `/admin/system` and
//! `/admin/upstreams`. A value that could not be measured is `None`, never a guess.

use std::collections::BTreeMap;

use crate::{
    model::{EngineKind, Task},
    schema::{list, nullable, one_of, time, whole},
    view,
};

view! {
    /// The machine at one moment. Sizes are MiB.
    #[derive(Debug, Clone, Default)]
    pub struct HostNow {
        pub ts: String as time(),
        /// The use of all processors together, 0 to 100, since the previous sample (at most 10 s before).
        pub cpu_util_pct: Option<f64>,
        pub cpu_count: usize,
        /// The load average over 1, 5 and 15 minutes.
        pub load_avg: Option<[f64; 3]>,
        pub uptime_sec: Option<u64>,
        /// The RAM. If the gateway runs in a container with a memory limit, it is the limit.
        pub mem_total_mb: Option<u64>,
        pub mem_used_mb: Option<u64>,
        pub swap_total_mb: Option<u64>,
        pub swap_used_mb: Option<u64>,
        pub disks: Vec<Disk>,
        /// The use of the fullest of `disks`.
        pub disk_used_pct: Option<f64>,
        /// Bytes a second over all interfaces that are not loopback or a container's.
        pub net_rx_bps: Option<u64>,
        pub net_tx_bps: Option<u64>,
        pub gpus: Vec<GpuNow>,
        pub gateway: ProcessNow,
    }
}

view! {
    /// A file system that the gateway keeps data on.
    #[derive(Debug, Clone)]
    pub struct Disk: "FileSystem" {
        /// What it holds; several, if they share the file system.
        pub holds: Vec<&'static str> as list(one_of(&["data", "models", "hub_cache"])),
        pub total_mb: u64,
        pub used_mb: u64,
        /// The used share of the space that may be used, as `df` computes it.
        pub used_pct: f64,
    }
}

view! {
    #[derive(Debug, Clone)]
    pub struct GpuNow: "GpuNow" {
        pub index: u32,
        pub name: String,
        pub mem_total_mb: Option<u64>,
        pub mem_used_mb: Option<u64>,
        pub util_pct: Option<u32>,
        pub temperature_c: Option<u32>,
        /// Watts.
        pub power_w: Option<f64>,
    }
}

view! {
    /// The gateway's own process.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct ProcessNow: "GatewayProcess" {
        pub rss_mb: Option<u64>,
        pub open_fds: Option<u64>,
        pub threads: Option<u64>,
        /// The CPU time that it used since it started.
        pub cpu_seconds: Option<f64>,
    }
}

view! {
    /// A value at one time.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Point: "Point" {
        /// The end of the interval.
        pub ts: String as time(),
        pub value: f64,
    }
}

view! {
    /// The recorded samples. Times without a sample have no point.
    #[derive(Debug, Clone, Default)]
    pub struct Trends {
        /// How many seconds one point covers. Its value is the mean of the samples of that time.
        pub interval_sec: u64,
        pub cpu_util_pct: Vec<Point>,
        pub mem_used_mb: Vec<Point>,
        pub disk_used_pct: Vec<Point>,
        pub net_rx_bps: Vec<Point>,
        pub net_tx_bps: Vec<Point>,
        /// The trends of each GPU, by its index.
        pub gpu: BTreeMap<u32, GpuTrends>,
    }
}

view! {
    #[derive(Debug, Clone, Default)]
    pub struct GpuTrends {
        pub util_pct: Vec<Point>,
        pub mem_used_mb: Vec<Point>,
    }
}

view! {
    /// What the data plane did over the last `window_sec` seconds. A percentile is `None` without a sample.
    #[derive(Debug, Clone, Default)]
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
}

view! {
    /// The environment that the gateway runs in.
    #[derive(Debug, Clone)]
    pub struct Capabilities {
        pub os: Os,
        pub container: Container,
        pub cgroup: Cgroup,
        pub cpu: Cpu,
        pub container_runtime: RuntimeFound,
        pub supervision: Supervision,
        pub gpu_toolkit: Provider,
        pub monitoring: Vec<Provider>,
    }
}

view! {
    #[derive(Debug, Clone)]
    pub struct Os {
        /// The name of the distribution, as in `Debian GNU/Linux 13 (trixie)`.
        pub name: Option<String>,
        pub kernel: Option<String>,
        pub arch: &'static str,
        /// The version of the Windows Subsystem for Linux.
        pub wsl: Option<u8> as nullable(whole(1, 2)),
    }
}

view! {
    /// Whether the gateway itself runs in a container.
    #[derive(Debug, Clone)]
    pub struct Container {
        pub inside: bool,
        /// The sign by which the container was recognised.
        pub evidence: Option<&'static str>,
    }
}

view! {
    #[derive(Debug, Clone, Default)]
    pub struct Cgroup {
        /// `null` if none was found.
        pub version: Option<u8> as nullable(whole(1, 2)),
        pub memory_limit_mb: Option<u64>,
        /// The CPU limit, in processors.
        pub cpu_limit: Option<f64>,
    }
}

view! {
    #[derive(Debug, Clone)]
    pub struct Cpu {
        pub model: Option<String>,
        /// The processors of the machine.
        pub count: usize,
        /// The processors that the gateway may use.
        pub usable: usize,
    }
}

view! {
    #[derive(Debug, Clone)]
    pub struct RuntimeFound {
        pub available: bool,
        pub name: Option<String>,
        pub version: Option<String>,
        pub api_version: Option<String>,
        /// Why it is not available.
        pub detail: Option<String>,
    }
}

view! {
    /// Which of the gateways that share a database manages the models' containers.
    #[derive(Debug, Clone)]
    pub struct Supervision {
        /// The role of this gateway: `supervisor`, `follower` (another gateway supervises), `stranger` (no gateway
        /// supervises, and this one must not, because it does not see the containers) or `unknown`.
        pub role: &'static str as one_of(&["supervisor", "follower", "stranger", "unknown"]),
        pub detail: &'static str,
        /// The name of this gateway; `null` if its database is its own.
        pub gateway: Option<String>,
        /// A text that identifies the containers that this gateway sees: two gateways with the same text see the same containers.
        pub runtime: Option<String>,
        /// The name of the gateway that supervises, or did last.
        pub supervisor: Option<String>,
        pub supervisor_runtime: Option<String>,
        pub since: Option<String> as nullable(time()),
        /// Requests for managed models can be served here: the engines listen on this machine's loopback.
        pub reaches_engines: bool,
    }
}

view! {
    /// Whether a provider is there, or why not.
    #[derive(Debug, Clone)]
    pub struct Provider: "Found" {
        pub name: &'static str,
        pub available: bool,
        pub detail: String,
    }
}

/// Where the gateway knows an engine from: a model of its own, or an entry that an owner made.
pub const SOURCES: &[&str] = &["managed", "manual"];
/// The states of a breaker.
pub const BREAKER_STATES: &[&str] = &["closed", "half_open", "open"];

view! {
    /// An engine as the gateway's probes see it: one address behind a served name.
    #[derive(Debug, Clone)]
    pub struct UpstreamView: "Upstream" {
        pub served_name: String,
        /// `null` while the engine does not run.
        pub url: Option<String>,
        pub task: Task,
        /// `null`: the engine was entered by hand.
        pub engine_type: Option<EngineKind>,
        pub source: &'static str as one_of(SOURCES),
        /// The engine gets requests, and its last probe succeeded.
        pub healthy: bool,
        /// RFC 3339.
        pub last_ok_at: Option<String> as nullable(time()),
        pub last_error: Option<String>,
        /// Latency of the last probe that was answered.
        pub latency_ms: Option<f64>,
        /// Probes that failed in a row.
        pub consecutive_failures: u32,
        pub breaker: BreakerView,
        pub in_flight: u32,
        /// Models that the engine lists at `/v1/models`.
        pub models: Vec<String>,
        /// The last probes, oldest first.
        pub history: Vec<ProbeView>,
    }
}

view! {
    #[derive(Debug, Clone)]
    pub struct BreakerView {
        pub state: &'static str as one_of(BREAKER_STATES),
        /// Whose requests the breaker refuses while it is not closed: `all`, or `some` (only callers whose requests got
        /// errors; the others are served).
        pub keeps_away: Option<&'static str> as nullable(one_of(&["all", "some"])),
        pub cooldown_remaining_sec: f64,
    }
}

view! {
    #[derive(Debug, Clone, PartialEq)]
    pub struct ProbeView {
        /// RFC 3339.
        pub ts: String as time(),
        pub ok: bool,
        pub latency_ms: Option<f64>,
        pub error: Option<String>,
    }
}

/// Whether requests to a route can be expected to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteHealth {
    /// Nothing is wrong.
    Ok,
    /// The route has no engine now.
    Down,
    /// The engine does not answer probes, or not as it should.
    ProbesFail,
    /// The engine has sent nothing for `silent_sec` seconds while requests wait.
    Stalled { silent_sec: u64 },
    /// The engine failed repeatedly: its breaker is not closed.
    Failing {
        half_open: bool,
        /// The breaker is open only for a few callers, whose requests may be at fault; the others are served.
        for_some: bool,
    },
}

impl RouteHealth {
    /// Returns whether nothing is wrong.
    pub fn is_ok(self) -> bool {
        self == Self::Ok
    }

    /// Returns the rank of this health. A route has the health of its engine with the lowest rank.
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

    /// Returns the state of the breaker, one of [`BREAKER_STATES`].
    pub fn breaker(self) -> &'static str {
        match self {
            Self::Ok | Self::Down | Self::ProbesFail | Self::Stalled { .. } => "closed",
            Self::Failing { half_open: false, .. } => "open",
            Self::Failing { half_open: true, .. } => "half_open",
        }
    }
}
