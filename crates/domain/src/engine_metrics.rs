//! Reads an engine's `/metrics` in the Prometheus text format
//! (prometheus.io "Exposition formats", version 0.0.4).
//!
//! Metric names: vLLM `vllm/v1/metrics/loggers.py` (0.10 to 0.32), llama.cpp `tools/server/server-context.cpp` (b11434
//! and before). An engine is not trusted: unknown lines, malformed lines and impossible numbers are skipped, and memory
//! does not grow with the text.

use serde::Serialize;

use crate::{
    model::EngineKind,
    schema::{nullable, share, words},
};

/// Most bounds of one histogram; the engines' histograms have some 25.
const MAX_BOUNDS: usize = 256;

crate::view! {
    /// Measurements of one engine. `None` means that nobody measured it. The engine's counters and percentiles cover its
    /// whole life.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct EngineMetrics {
        pub requests_running: Option<u64>,
        pub requests_waiting: Option<u64>,
        /// Share of the KV cache that is in use, 0 to 1.
        pub kv_cache_usage: Option<f64> as nullable(share()),
        /// Prompt tokens as the engine counts them: vLLM includes those that the cache held, llama.cpp does not.
        pub prompt_tokens_total: Option<u64>,
        pub generation_tokens_total: Option<u64>,
        pub ttft_p50_ms: Option<f64>,
        pub ttft_p95_ms: Option<f64>,
        /// Time from the arrival of a request to its last token.
        pub latency_p50_ms: Option<f64>,
        pub latency_p95_ms: Option<f64>,
        /// Who measured the percentiles.
        pub latency_source: Option<LatencySource> as nullable(words(&LatencySource::ALL)),
        /// Share of the prompt tokens that the cache held, 0 to 1.
        pub prefix_cache_hit_rate: Option<f64> as nullable(share()),
    }
}

/// Who measured the latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LatencySource {
    /// The engine itself.
    Engine,
    /// This gateway, since it started, from the requests that it forwarded.
    Gateway,
}

impl LatencySource {
    pub const ALL: [Self; 2] = [Self::Engine, Self::Gateway];
}

/// Cumulative counts by upper bound in seconds; `None` is the last bound.
pub type Buckets = Vec<(Option<f64>, u64)>;

impl EngineMetrics {
    /// Fills in percentiles from the gateway's histograms if the engine has none (llama.cpp).
    #[must_use]
    pub fn or_measured(mut self, ttft: &Buckets, latency: &Buckets) -> Self {
        if self.latency_source.is_some() {
            return self;
        }
        let read = |buckets: &Buckets| {
            let mut histogram = Histogram::default();
            for (le, count) in buckets {
                histogram.add(le.unwrap_or(f64::INFINITY), *count as f64);
            }
            (histogram.percentile_ms(0.5), histogram.percentile_ms(0.95))
        };
        (self.ttft_p50_ms, self.ttft_p95_ms) = read(ttft);
        (self.latency_p50_ms, self.latency_p95_ms) = read(latency);
        self.latency_source = self.latency_p50_ms.map(|_| LatencySource::Gateway);
        self
    }
}

/// Reads the text of `/metrics`. Returns `None` if it has none of the engine's known metrics.
pub fn parse(engine: EngineKind, text: &str) -> Option<EngineMetrics> {
    let mut seen = Totals::default();
    for sample in text.lines().filter_map(Sample::read) {
        seen.take(engine, &sample);
    }
    let metrics = seen.into_metrics(engine);
    (metrics != EngineMetrics::default()).then_some(metrics)
}

/// One line: a name, the bound of a bucket if it has one, and a number that is neither negative nor infinite.
struct Sample<'a> {
    name: &'a str,
    le: Option<f64>,
    value: f64,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let end = line.find(['{', ' ', '\t'])?;
        let (name, rest) = line.split_at(end);
        if name.is_empty() || name.starts_with('#') {
            return None;
        }
        let (le, rest) = match rest.strip_prefix('{') {
            Some(labels) => labels_of(labels)?,
            None => (None, rest),
        };
        // A time stamp may follow.
        let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(Self { name, le, value })
    }
}

/// Returns the value of `le` and the text behind the closing brace. Values are quoted, with `\"` inside.
fn labels_of(mut text: &str) -> Option<(Option<f64>, &str)> {
    let mut le = None;
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((le, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let rest = rest.trim_start().strip_prefix('"')?;
        let mut escaped = false;
        let end = rest.find(|it| {
            let ends = it == '"' && !escaped;
            escaped = it == '\\' && !escaped;
            ends
        })?;
        if name.trim() == "le" {
            le = Some(rest.get(..end)?.parse().ok()?);
        }
        text = rest.get(end.checked_add(1)?..)?;
    }
}

/// Cumulative counts by upper bound in seconds, summed over all series: a data-parallel engine has several.
#[derive(Default)]
struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    fn add(&mut self, le: f64, count: f64) {
        if le.is_nan() {
            return;
        }
        match self.0.binary_search_by(|it| it.0.total_cmp(&le)) {
            Ok(at) => {
                if let Some(bucket) = self.0.get_mut(at) {
                    bucket.1 += count;
                }
            }
            Err(at) if self.0.len() < MAX_BOUNDS => self.0.insert(at, (le, count)),
            Err(_) => {}
        }
    }

    /// Returns the milliseconds below which the share `q` of all samples lies, as Prometheus' `histogram_quantile`
    /// computes it: samples are spread evenly within a bucket; in the last bucket its lower bound is returned.
    fn percentile_ms(&self, q: f64) -> Option<f64> {
        let total = self.0.last().filter(|it| it.0.is_infinite() && it.1 > 0.0)?.1;
        let rank = q * total;
        let (mut lower, mut below) = (0.0, 0.0);
        for (upper, count) in &self.0 {
            // Cumulative counts never fall. If an engine reports a lower one, the larger one is used.
            let count = count.max(below);
            if count >= rank && count > below {
                let seconds = if upper.is_infinite() {
                    lower
                } else {
                    lower + (upper - lower) * ((rank - below) / (count - below))
                };
                return Some((seconds * 1e6).round() / 1e3);
            }
            (lower, below) = (*upper, count);
        }
        None
    }
}

/// A sum over series, and the number of series.
#[derive(Default, Clone, Copy)]
struct Sum {
    total: f64,
    n: u32,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.total += value;
        self.n = self.n.saturating_add(1);
    }

    fn get(self) -> Option<f64> {
        (self.n > 0).then_some(self.total)
    }

    fn whole(self) -> Option<u64> {
        self.get().filter(|it| *it < 9e15).map(|it| it as u64)
    }

    /// Returns the mean, for shares, which can't be added up.
    fn mean(self) -> Option<f64> {
        self.get().map(|it| (it / f64::from(self.n)).clamp(0.0, 1.0))
    }
}

#[derive(Default)]
struct Totals {
    running: Sum,
    waiting: Sum,
    kv_cache: Sum,
    prompt: Sum,
    generation: Sum,
    cache_queries: Sum,
    cache_hits: Sum,
    ttft: Histogram,
    latency: Histogram,
}

impl Totals {
    fn take(&mut self, engine: EngineKind, sample: &Sample<'_>) {
        let sum = match (engine, sample.name) {
            (EngineKind::Vllm, "vllm:num_requests_running")
            | (EngineKind::Llamacpp, "llamacpp:requests_processing") => &mut self.running,
            (EngineKind::Vllm, "vllm:num_requests_waiting")
            | (EngineKind::Llamacpp, "llamacpp:requests_deferred") => &mut self.waiting,
            // 0.10 and 0.11 have both names, with the same value; until 0.9 there was only the second. llama.cpp
            // removed its own metric in 2025.
            (EngineKind::Vllm, "vllm:kv_cache_usage_perc" | "vllm:gpu_cache_usage_perc")
            | (EngineKind::Llamacpp, "llamacpp:kv_cache_usage_ratio") => &mut self.kv_cache,
            (EngineKind::Vllm, "vllm:prompt_tokens_total")
            | (EngineKind::Llamacpp, "llamacpp:prompt_tokens_total") => &mut self.prompt,
            (EngineKind::Vllm, "vllm:generation_tokens_total")
            | (EngineKind::Llamacpp, "llamacpp:tokens_predicted_total") => &mut self.generation,
            // The names had `gpu_` until 0.10.
            (EngineKind::Vllm, "vllm:prefix_cache_queries_total" | "vllm:gpu_prefix_cache_queries_total") => {
                &mut self.cache_queries
            }
            (EngineKind::Vllm, "vllm:prefix_cache_hits_total" | "vllm:gpu_prefix_cache_hits_total")
            | (EngineKind::Llamacpp, "llamacpp:prompt_tokens_cached_total") => &mut self.cache_hits,
            (EngineKind::Vllm, "vllm:time_to_first_token_seconds_bucket") => {
                return self.ttft.add(sample.le.unwrap_or(f64::NAN), sample.value);
            }
            (EngineKind::Vllm, "vllm:e2e_request_latency_seconds_bucket") => {
                return self.latency.add(sample.le.unwrap_or(f64::NAN), sample.value);
            }
            _ => return,
        };
        sum.add(sample.value);
    }

    fn into_metrics(self, engine: EngineKind) -> EngineMetrics {
        let queries = match engine {
            EngineKind::Vllm => self.cache_queries.get(),
            // llama.cpp counts only the tokens that it had to process.
            EngineKind::Llamacpp => self.cache_hits.get().and_then(|hits| Some(hits + self.prompt.get()?)),
        };
        let hit_rate = |hits: f64| queries.filter(|it| *it > 0.0).map(|it| (hits / it).min(1.0));
        let latency = self.latency.percentile_ms(0.5);
        EngineMetrics {
            latency_source: latency.map(|_| LatencySource::Engine),
            requests_running: self.running.whole(),
            requests_waiting: self.waiting.whole(),
            kv_cache_usage: self.kv_cache.mean(),
            prompt_tokens_total: self.prompt.whole(),
            generation_tokens_total: self.generation.whole(),
            ttft_p50_ms: self.ttft.percentile_ms(0.5),
            ttft_p95_ms: self.ttft.percentile_ms(0.95),
            latency_p50_ms: latency,
            latency_p95_ms: self.latency.percentile_ms(0.95),
            prefix_cache_hit_rate: self.cache_hits.get().and_then(hit_rate),
        }
    }
}
