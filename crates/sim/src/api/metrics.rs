//! `/metrics`: the simulator's own counters under the Prometheus names of each engine.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::config::Task;
use crate::engine::Engine;
use crate::flavour::{Flavour, Version};

pub(super) fn render(engine: &Engine) -> String {
    match engine.config.flavour {
        Flavour::Vllm => vllm(engine),
        Flavour::Llamacpp => llama(engine),
    }
}

fn read(counter: &AtomicU64) -> f64 {
    counter.load(Relaxed) as f64
}

/// Returns the numbers of running and waiting requests.
fn load(engine: &Engine) -> (f64, f64) {
    let waiting = read(&engine.counters.waiting);
    ((read(&engine.counters.in_flight) - waiting).max(0.0), waiting)
}

fn vllm(engine: &Engine) -> String {
    let (config, counters) = (&engine.config, &engine.counters);
    let labels = format!("engine=\"0\",model_name=\"{}\"", config.name().replace('"', "\\\""));
    let mut text = String::new();
    let mut put = |kind: &str, name: &str, samples: &[(&str, f64)]| {
        let base = name.trim_end_matches("_bucket");
        let _ = writeln!(text, "# HELP vllm:{base} Simulated.\n# TYPE vllm:{base} {kind}");
        for (extra, value) in samples {
            let comma = if extra.is_empty() { "" } else { "," };
            let _ = writeln!(text, "vllm:{name}{{{labels}{comma}{extra}}} {value:?}");
        }
        if kind == "counter" {
            let created = name.replace("_total", "_created");
            let _ = writeln!(
                text,
                "# TYPE vllm:{created} gauge\nvllm:{created}{{{labels}}} {:?}",
                engine.started as f64
            );
        }
    };
    let (running, waiting) = load(engine);
    put("gauge", "num_requests_running", &[("", running)]);
    put("gauge", "num_requests_waiting", &[("", waiting)]);
    put(
        "gauge",
        "num_requests_waiting_by_reason",
        &[("reason=\"capacity\"", waiting), ("reason=\"deferred\"", 0.0)],
    );
    let usage = (running / f64::from(config.slots.max(1))).min(1.0);
    put("gauge", "kv_cache_usage_perc", &[("", usage)]);
    if config.version < Version(0, 12, 0) {
        put("gauge", "gpu_cache_usage_perc", &[("", usage)]);
    }
    put("counter", "prompt_tokens_total", &[("", read(&counters.prompt_tokens))]);
    put("counter", "generation_tokens_total", &[("", read(&counters.tokens_generated))]);
    put("counter", "prefix_cache_queries_total", &[("", read(&counters.prompt_tokens))]);
    put("counter", "prefix_cache_hits_total", &[("", 0.0)]);
    put("counter", "num_preemptions_total", &[("", 0.0)]);
    put(
        "counter",
        "request_success_total",
        &[
            ("finished_reason=\"stop\"", read(&counters.finished_stop)),
            ("finished_reason=\"length\"", read(&counters.finished_length)),
            ("finished_reason=\"abort\"", read(&counters.cancelled)),
            ("finished_reason=\"error\"", read(&counters.failed)),
            ("finished_reason=\"repetition\"", 0.0),
        ],
    );
    let _ = writeln!(
        text,
        "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{block_size=\"16\",cache_dtype=\"auto\",\
         engine=\"0\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{}\"}} 1.0",
        u64::from(config.context) * 16,
        config.context
    );
    let done = read(&counters.completed);
    let made = (read(&counters.tokens_generated) - done).max(0.0);
    let between = if config.version < Version(0, 10, 2) {
        "time_per_output_token_seconds"
    } else {
        "inter_token_latency_seconds"
    };
    histogram(&mut text, &labels, "time_to_first_token_seconds", &counters.ttft_us, done);
    histogram(&mut text, &labels, between, &counters.decode_us, made);
    histogram(&mut text, &labels, "e2e_request_latency_seconds", &counters.latency_us, done);
    histogram(&mut text, &labels, "request_queue_time_seconds", &AtomicU64::new(0), done);
    text
}

/// Writes a histogram that is made from a sum: every observation is put at the mean.
fn histogram(text: &mut String, labels: &str, name: &str, sum_us: &AtomicU64, n: f64) {
    const BOUNDS: [f64; 14] =
        [0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 40.0];
    let sum = read(sum_us) / 1e6;
    let mean = if n > 0.0 { sum / n } else { 0.0 };
    let _ = writeln!(text, "# HELP vllm:{name} Simulated.\n# TYPE vllm:{name} histogram");
    for bound in BOUNDS {
        let below = if mean <= bound { n } else { 0.0 };
        let _ = writeln!(text, "vllm:{name}_bucket{{{labels},le=\"{bound:?}\"}} {below:?}");
    }
    let _ = writeln!(text, "vllm:{name}_bucket{{{labels},le=\"+Inf\"}} {n:?}");
    let _ = writeln!(text, "vllm:{name}_count{{{labels}}} {n:?}\nvllm:{name}_sum{{{labels}}} {sum:?}");
}

fn llama(engine: &Engine) -> String {
    let counters = &engine.counters;
    let (running, waiting) = load(engine);
    let seconds = |us: &AtomicU64| read(us) / 1e6;
    let rate = |n: f64, s: f64| if s > 0.0 { n / s } else { 0.0 };
    let (prompt, made) = (read(&counters.prompt_tokens), read(&counters.tokens_generated));
    let embeds = engine.config.task != Task::Generate;
    let rows = [
        ("counter", "prompt_tokens_total", prompt),
        ("counter", "prompt_tokens_cached_total", 0.0),
        ("counter", "prompt_seconds_total", seconds(&counters.ttft_us)),
        ("counter", "tokens_predicted_total", made),
        ("counter", "tokens_predicted_seconds_total", seconds(&counters.decode_us)),
        ("counter", "n_decode_total", if embeds { read(&counters.completed) } else { made }),
        ("counter", "n_tokens_max", read(&counters.longest)),
        ("counter", "spec_decode_num_draft_tokens_total", 0.0),
        ("counter", "spec_decode_num_accepted_tokens_total", 0.0),
        ("counter", "spec_decode_num_drafts_total", 0.0),
        ("gauge", "prompt_tokens_seconds", rate(prompt, seconds(&counters.ttft_us))),
        ("gauge", "predicted_tokens_seconds", rate(made, seconds(&counters.decode_us))),
        ("gauge", "requests_processing", running),
        ("gauge", "requests_deferred", waiting),
        ("gauge", "n_busy_slots_per_decode", if made > 0.0 { 1.0 } else { 0.0 }),
    ];
    let mut text = String::new();
    for (kind, name, value) in rows {
        let _ = writeln!(
            text,
            "# HELP llamacpp:{name} Simulated.\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}"
        );
    }
    text
}
