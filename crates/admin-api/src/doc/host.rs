//! `/admin/system` as far as it measures: the shapes of `gantry_domain::host`.

use gantry_domain::ErrorCode;
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        count, defaulted, described, flag, list, map, named, nullable, number, object, one_of, text, time,
        whole,
    },
};

/// Fields with the same schema, each of which may be `null`.
fn unknowable(names: &[&'static str], schema: &Value) -> Vec<(&'static str, Value)> {
    names.iter().map(|it| (*it, nullable(schema.clone()))).collect()
}

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let gpu = [("index", count()), ("name", text()), ("power_w", nullable(number()))];
    let gpu_counts = unknowable(&["mem_total_mb", "mem_used_mb", "util_pct", "temperature_c"], &count());
    let process = unknowable(&["rss_mb", "open_fds", "threads"], &count());
    vec![
        (
            "FileSystem",
            object([
                ("holds", list(one_of(&["data", "models", "hub_cache"]))),
                ("total_mb", count()),
                ("used_mb", count()),
                ("used_pct", number()),
            ]),
        ),
        ("GpuNow", object(gpu.into_iter().chain(gpu_counts))),
        ("GatewayProcess", object(process.into_iter().chain([("cpu_seconds", nullable(number()))]))),
        ("Point", object([("ts", time()), ("value", number())])),
        ("Found", object([("name", text()), ("available", flag()), ("detail", text())])),
    ]
}

/// Three numbers, over 1, 5 and 15 minutes.
fn load() -> Value {
    json!({ "type": ["array", "null"], "items": number(), "minItems": 3, "maxItems": 3 })
}

pub(crate) fn summary() -> Doc {
    let cpu = [("count", count()), ("util_pct", nullable(number())), ("load_avg", load())];
    let gpu = unknowable(&["mem_total_mb", "mem_used_mb", "util_pct_max"], &count());
    Doc::new("getSystemSummary", "The machine in short")
        .about("Processors, memory, disk and GPUs together. Sizes are MiB. What can't be measured is `null`.")
        .ok(object([
            ("ts", time()),
            ("cpu", object(cpu)),
            ("memory", object(unknowable(&["total_mb", "used_mb"], &count()))),
            ("disk", object([("used_pct", nullable(number())), ("file_systems", list(named("FileSystem")))])),
            ("gpu", object([("count", count())].into_iter().chain(gpu))),
            ("gateway", named("GatewayProcess")),
            ("uptime_sec", nullable(count())),
        ]))
        .errors(&[ErrorCode::HostUnavailable])
}

pub(crate) fn throughput() -> Doc {
    let rates = ["req_per_sec", "prompt_tokens_per_sec", "generation_tokens_per_sec", "window_sec"];
    let times = ["latency_p50_ms", "latency_p95_ms", "ttft_p50_ms", "ttft_p95_ms"];
    let counts = ["active_requests", "active_streams"].map(|it| (it, count()));
    Doc::new("getThroughput", "What the gateway does")
        .about(
            "From the gateway's own counters over `window_sec` seconds, about a minute. Percentiles are of whole \
             requests and of the time to the first byte of streams, and `null` when there was none.",
        )
        .ok(object(
            rates.map(|it| (it, number())).into_iter().chain(unknowable(&times, &number())).chain(counts),
        ))
}

pub(crate) fn now() -> Doc {
    let counts = [
        "uptime_sec",
        "mem_total_mb",
        "mem_used_mb",
        "swap_total_mb",
        "swap_used_mb",
        "net_rx_bps",
        "net_tx_bps",
    ];
    let rest = [
        ("ts", time()),
        ("cpu_util_pct", nullable(number())),
        ("cpu_count", count()),
        ("load_avg", load()),
        ("disks", list(named("FileSystem"))),
        ("disk_used_pct", nullable(number())),
        ("gpus", list(named("GpuNow"))),
        ("gateway", named("GatewayProcess")),
    ];
    Doc::new("getHostSummary", "The machine now")
        .about(
            "Measured for this answer; rates are since the look before (10 s ago at most). Sizes are MiB, the network \
             is in bytes a second. What can't be measured is `null`.",
        )
        .ok(object(rest.into_iter().chain(unknowable(&counts, &count()))))
        .errors(&[ErrorCode::HostUnavailable])
}

pub(crate) fn trends() -> Doc {
    let points = |names: &[&'static str]| -> Vec<(&'static str, Value)> {
        names.iter().map(|it| (*it, list(named("Point")))).collect()
    };
    let host = ["cpu_util_pct", "mem_used_mb", "disk_used_pct", "net_rx_bps", "net_tx_bps"];
    let gpu = described(map(object(points(&["util_pct", "mem_used_mb"]))), "By index.");
    Doc::new("getHostTrends", "The machine over time")
        .about(
            "A sample is taken every 10 s and kept for a day, in memory; times without samples have no point. Long spans \
             are averaged: a point stands for `interval_sec` seconds. The network is in bytes a second.",
        )
        .query("minutes", defaulted(whole(1, 1440), 60), "How far back.")
        .ok(object(points(&host).into_iter().chain([("interval_sec", count()), ("gpu", gpu)])))
}

pub(crate) fn capabilities() -> Doc {
    let os = [("arch", text()), ("wsl", nullable(whole(1, 2)))];
    let cgroup = [
        ("version", nullable(whole(1, 2))),
        ("memory_limit_mb", nullable(count())),
        ("cpu_limit", nullable(number())),
    ];
    let runtime = unknowable(&["name", "version", "api_version", "detail"], &text());
    Doc::new("getCapabilities", "What the gateway runs on")
        .about(
            "System, kernel, container, control groups, container runtime, which of several gateways supervises the \
             models, GPU tools, and which providers of figures were found, or why not.",
        )
        .ok(object([
            ("os", object(os.into_iter().chain(unknowable(&["name", "kernel"], &text())))),
            ("container", object([("inside", flag()), ("evidence", nullable(text()))])),
            ("cgroup", object(cgroup)),
            ("cpu", object([("model", nullable(text())), ("count", count()), ("usable", count())])),
            ("container_runtime", object([("available", flag())].into_iter().chain(runtime))),
            (
                "supervision",
                object(
                    [
                        ("role", one_of(&["supervisor", "follower", "stranger", "unknown"])),
                        ("detail", text()),
                        ("reaches_engines", flag()),
                    ]
                    .into_iter()
                    .chain(unknowable(&["gateway", "runtime", "supervisor", "supervisor_runtime"], &text()))
                    .chain([("since", nullable(time()))]),
                ),
            ),
            ("gpu_toolkit", named("Found")),
            ("monitoring", list(named("Found"))),
        ]))
}
