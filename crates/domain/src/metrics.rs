//! Every metric at `/metrics`, defined once: name, type, labels and what it counts. The listener writes only metrics
//! that are in this table, and the reference page is made from it. Labels are bounded: models are the served names of
//! the catalog (at most 200, the rest is `other`), everything else is a fixed list.

use crate::words;

words! {
    /// The Prometheus type of a metric.
    pub enum MetricKind {
        /// A count that only grows.
        Counter = "counter",
        /// A value that goes up and down.
        Gauge = "gauge",
        /// Counts by size, with their sum.
        Histogram = "histogram",
    }
}

/// One metric family.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $id: Metric =
                Metric { name: $name, kind: MetricKind::$kind, labels: &[$($label),*], help: $help };
        )+
        /// All metrics, in the order of the reference page.
        pub const ALL: &[Metric] = &[$($id),+];
    };
}

metrics! {
    REQUESTS = Counter "gantry_requests_total" ["outcome"]
        "Inference requests that passed authentication, by how they ended.";
    MODEL_REQUESTS = Counter "gantry_model_requests_total" ["model", "endpoint", "status"]
        "Inference requests that passed authentication, by model, endpoint and class of the status.";
    REFUSED = Counter "gantry_requests_refused_total" []
        "Inference requests refused with 401 before they had a usage row.";
    DURATION = Histogram "gantry_request_duration_seconds" ["model"] "Duration of whole requests.";
    TTFT = Histogram "gantry_time_to_first_token_seconds" ["model"] "Time to the first byte of streamed answers.";
    GAP = Histogram "gantry_inter_token_seconds" ["model"]
        "Time between two pieces of streamed answers, counted at their end.";
    TOKENS = Counter "gantry_tokens_total" ["model", "kind"]
        "Tokens: `prompt`, `cached` (which are among the prompt tokens), and `completion`.";
    ESTIMATED = Counter "gantry_estimated_rows_total" [] "Usage rows with counts that the gateway estimated.";
    IN_FLIGHT = Gauge "gantry_in_flight_requests" [] "Inference requests that have arrived and are not answered completely.";
    STREAMS = Gauge "gantry_streams" [] "Answers that are streaming.";
    SIMULATED = Gauge "gantry_model_simulated" ["model"]
        "1 for each model that runs on Gantry's simulator instead of an engine; its answers mean nothing.";
    WAITING = Gauge "gantry_waiting_requests" ["model"] "Requests that wait for a model that is being applied.";
    BODY_BYTES = Gauge "gantry_request_body_bytes" []
        "Memory that request bodies of more than 64 KiB take until the engine answers.";
    CONNECTIONS = Counter "gantry_connections_total" [] "Client connections accepted.";
    CONNECTIONS_REFUSED = Counter "gantry_connections_refused_total" ["why"]
        "Client connections closed because there were too many: `full` and `address` at once, `silent` to make room for another.";
    CONNECTIONS_OPEN = Gauge "gantry_connections_open" [] "Open client connections.";
    MODELS = Gauge "gantry_models" ["state"] "Models by state.";
    RESTARTS = Counter "gantry_model_restarts_total" ["model", "reason"]
        "Starts that no operator asked for: after a failure (`restart_policy`), or by `autostart`.";
    GIVEN_UP = Gauge "gantry_models_given_up" []
        "Models that stay failed because they were started again as often as `restart_limit` allows.";
    UPSTREAM_UP = Gauge "gantry_upstream_healthy" ["model"]
        "1 if an engine of the model gets requests and its last probe succeeded.";
    UPSTREAM_IN_FLIGHT = Gauge "gantry_upstream_in_flight" ["model"] "Requests that the model's engines work on.";
    BREAKER = Gauge "gantry_breaker_state" ["model", "state"] "1 for the state that the engine's breaker is in; if a model has several engines, their best state.";
    BREAKER_OPENED = Counter "gantry_breaker_opened_total" ["model"] "How often the engines' breakers opened.";
    STALLS = Counter "gantry_stalls_total" ["model"] "How often the engine fell silent while requests waited.";
    CONNECTS = Counter "gantry_upstream_connects_total" [] "Connections made to engines.";
    RETRIES = Counter "gantry_upstream_retries_total" ["cause"]
        "Requests that were sent once more. The first engine had received no byte: it was `unreachable`, it had `closed` the connection, or another engine got the request (`elsewhere`).";
    USAGE_SHIPPED = Counter "gantry_usage_shipped_total" [] "Usage rows that the shipper brought from the spool to the database.";
    USAGE_REPLAYED = Counter "gantry_usage_replayed_total" [] "Usage rows that the shipper brought and the database had already.";
    USAGE_FAILURES = Counter "gantry_usage_ship_failures_total" [] "Batches that the database did not take.";
    SPOOL_PENDING = Gauge "gantry_spool_backlog_bytes" [] "Bytes of the spool that are not in the database yet.";
    SPOOL_TORN = Counter "gantry_spool_torn_total" [] "Damaged places of the spool that the shipper skipped.";
    SPOOL_ERRORS = Counter "gantry_spool_errors_total" [] "Usage records that could not be written at first.";
    SPOOL_MISSING = Gauge "gantry_spool_missing_rows" []
        "Usage rows that were written and are neither in the database nor in the spool, because its files were removed.";
    REFUSALS_DROPPED = Counter "gantry_usage_refusals_dropped_total" []
        "Refused requests without a usage row, because the disk of the spool is almost full.";
    ACCESS_DROPPED = Counter "gantry_access_log_dropped_total" [] "Lines of the access log that were dropped.";
    TRACE_SPANS = Counter "gantry_trace_spans_total" ["result"]
        "Spans that were `exported`, `rejected` by the collector, or `dropped` because it was away or too slow.";
    ORPHANS = Counter "gantry_orphans_stopped_total" [] "Containers of this gateway without a model record that were removed.";
    UNREADABLE = Gauge "gantry_catalog_unreadable_rows" []
        "Rows of the database that can't be read and are left out: keys, sessions, models, registry.";
    LISTS_UNREADABLE = Counter "gantry_lists_unreadable_rows_total" []
        "Rows of the database that lists of the admin API left out because they can't be read; each counts once.";
    PANICS = Counter "gantry_panics_total" [] "Panics caught in request handlers.";
    DRILL_SUCCESS = Gauge "gantry_restore_drill_last_success_timestamp_seconds" []
        "When a restore drill last proved that a backup can be restored, since the epoch; absent if none has.";
    DRILL_RESULT = Gauge "gantry_restore_drill_last_result" []
        "1 if the last restore drill succeeded, 0 if it failed; absent before the first one.";
    LIMIT_DECISIONS = Counter "gantry_limit_decisions_total" ["kind", "result"]
        "Requests that a limit `allowed` or `refused`.";
    LIMIT_SHADOW = Counter "gantry_limit_shadow_total" ["kind"]
        "Requests that a limit in shadow mode would have refused.";
    LIMIT_FALLBACK = Counter "gantry_limit_fallback_total" []
        "Decisions on this gateway's share of a limit, because Redis could not be reached.";
    LIMIT_FAILURES = Counter "gantry_limit_redis_failures_total" [] "Exchanges of limits through Redis that failed.";
    LIMIT_EXCHANGES = Counter "gantry_limit_redis_exchanges_total" []
        "Exchanges of limits through Redis that succeeded.";
    LIMIT_REDIS_UP = Gauge "gantry_limit_redis_up" [] "Whether limits are shared through Redis now.";
    LIMIT_GATEWAYS = Gauge "gantry_limit_gateways" [] "Gateways that share the limits, as far as this gateway knows.";
    CPU = Gauge "gantry_host_cpu_utilisation_ratio" [] "Share of the time in which the machine's processors worked, 0–1.";
    MEMORY_USED = Gauge "gantry_host_memory_used_bytes" [] "Memory in use, of the machine or of the container that the gateway runs in.";
    MEMORY_TOTAL = Gauge "gantry_host_memory_total_bytes" [] "Memory of the machine, or the limit of the container that the gateway runs in.";
    DISK = Gauge "gantry_host_disk_used_ratio" [] "Share in use of the fullest file system that the gateway uses, 0–1.";
    GPU_USED = Gauge "gantry_gpu_memory_used_bytes" ["gpu"] "Memory of the GPU that is in use.";
    GPU_TOTAL = Gauge "gantry_gpu_memory_total_bytes" ["gpu"] "Memory of the GPU.";
    GPU_UTIL = Gauge "gantry_gpu_utilisation_ratio" ["gpu"] "Share of the time in which the GPU computed, 0–1.";
    GPU_TEMPERATURE = Gauge "gantry_gpu_temperature_celsius" ["gpu"] "Temperature of the GPU.";
    PROCESS_CPU = Counter "process_cpu_seconds_total" [] "Processor time of the gateway.";
    PROCESS_RSS = Gauge "process_resident_memory_bytes" [] "Resident memory of the gateway.";
    PROCESS_FDS = Gauge "process_open_fds" [] "Open files of the gateway.";
    PROCESS_START = Gauge "process_start_time_seconds" [] "When the gateway started, since the epoch.";
    BUILD = Gauge "gantry_build_info" ["version"] "Always 1; the label is the version.";
}
