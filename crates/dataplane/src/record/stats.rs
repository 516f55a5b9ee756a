//! Counts of requests by model, and histograms. Everything is made before the first request and counted with relaxed
//! atomic additions; the map of models is only used when a catalog is published or the counts are read.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gantry_domain::{endpoint::Endpoint, log_linear::LogLinear};
use parking_lot::{Mutex, MutexGuard};

/// Most models that have counts of their own; those of others, and of names that no model has, are under [`OTHER`].
pub const MAX_MODELS: usize = 200;
/// The label of models without counts of their own.
pub const OTHER: &str = "other";
/// Status classes that are counted: the first digit of the status.
pub const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Bounds for the time of whole requests and the time to the first token, in microseconds.
const REQUEST: [u64; 15] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
];
/// Bounds for the time between two pieces of a stream, in microseconds.
const GAP: [u64; 14] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 150_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000,
];

/// Fewest tokens of an answer whose rate is measured.
const MIN_MEASURED: u64 = 32;
/// Tokens a second that are assumed for one answer of a model without a measured rate.
const UNKNOWN_RATE: f64 = 50.0;

/// A histogram with fixed bounds, in the form that Prometheus wants once its buckets are summed up.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    buckets: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, buckets: zeros(bounds.len() + 1), sum_us: AtomicU64::new(0) }
    }

    /// Counts one value.
    pub fn record(&self, value: Duration) {
        let us = micros(value);
        self.buckets[self.bounds.partition_point(|bound| *bound < us)].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// Returns the upper bounds (inclusive) in seconds with the number of samples up to each, the last one without a
    /// bound; and the sum of all samples in seconds.
    pub fn read(&self) -> (Vec<(Option<f64>, u64)>, f64) {
        let mut sum = 0;
        let buckets = self.buckets.iter().enumerate().map(|(index, n)| {
            sum += n.load(Relaxed);
            (self.bounds.get(index).map(|us| *us as f64 / 1e6), sum)
        });
        (buckets.collect(), self.sum_us.load(Relaxed) as f64 / 1e6)
    }
}

/// Samples of one stream, added to a [`Histogram`] at its end: the threads' caches exchange no line for each piece.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    buckets: [u32; GAP.len() + 1],
    sum_us: u64,
}

impl Gaps {
    pub(crate) fn record(&mut self, value: Duration) {
        let us = micros(value);
        self.buckets[GAP.partition_point(|bound| *bound < us)] += 1;
        self.sum_us += us;
    }

    pub(crate) fn add_to(&self, histogram: &Histogram) {
        for (bucket, n) in histogram.buckets.iter().zip(self.buckets).filter(|it| it.1 > 0) {
            bucket.fetch_add(n.into(), Relaxed);
        }
        histogram.sum_us.fetch_add(self.sum_us, Relaxed);
    }
}

/// A histogram with buckets of 12.5 % width from 8 µs to days, for percentiles of any span: what was counted between
/// two readings is their difference.
#[derive(Debug)]
pub struct Fine(Box<[AtomicU64]>);

type FineBuckets = LogLinear<3>;
const FINE: usize = 8 * 40;

impl Default for Fine {
    fn default() -> Self {
        Self(zeros(FINE))
    }
}

impl Fine {
    /// Counts one value.
    pub fn record(&self, value: Duration) {
        let index = FineBuckets::bucket(micros(value));
        self.0[index.min(FINE - 1)].fetch_add(1, Relaxed);
    }

    /// Returns the counts of all buckets.
    pub fn read(&self) -> Vec<u64> {
        self.0.iter().map(|it| it.load(Relaxed)).collect()
    }

    /// Returns the value below which the share `q` (0–1) of the samples between two readings lies: the middle of its
    /// bucket, so at most 6.25 % off. `None` without samples.
    pub fn percentile(before: &[u64], after: &[u64], q: f64) -> Option<Duration> {
        let n = |index: usize| after[index].saturating_sub(before.get(index).copied().unwrap_or(0));
        let total: u64 = (0..after.len()).map(n).sum();
        let rank = ((total as f64 * q).ceil() as u64).max(1);
        let mut below = 0;
        let index = (0..after.len()).find(|index| {
            below += n(*index);
            below >= rank && total > 0
        })?;
        Some(Duration::from_micros(FineBuckets::middle(index)))
    }
}

/// Counts of one model, since the gateway started or the model appeared.
#[derive(Debug)]
pub struct ModelStats {
    /// By endpoint in the order of [`Endpoint::ALL`], and by [`CLASSES`].
    pub requests: [[AtomicU64; CLASSES.len()]; Endpoint::ALL.len()],
    /// Time of whole requests.
    pub latency: Histogram,
    /// Time to the first byte of streamed answers.
    pub ttft: Histogram,
    /// Time between two pieces of streamed answers.
    pub gaps: Histogram,
    pub prompt_tokens: AtomicU64,
    /// Prompt tokens that the engine had computed before.
    pub cached_tokens: AtomicU64,
    pub completion_tokens: AtomicU64,
    /// Recent rate of one answer, in tokens per 1,000 s; 0 if none was measured.
    rate: AtomicU32,
}

impl Default for ModelStats {
    fn default() -> Self {
        Self {
            requests: Default::default(),
            latency: Histogram::new(&REQUEST),
            ttft: Histogram::new(&REQUEST),
            gaps: Histogram::new(&GAP),
            prompt_tokens: AtomicU64::new(0),
            cached_tokens: AtomicU64::new(0),
            completion_tokens: AtomicU64::new(0),
            rate: AtomicU32::new(0),
        }
    }
}

impl ModelStats {
    /// Notes that an answer of `tokens` tokens took `took`. Short answers are ignored: their time depends more on their
    /// prompts.
    pub(crate) fn note_rate(&self, tokens: u64, took: Duration) {
        if tokens < MIN_MEASURED || took.is_zero() {
            return;
        }
        let new = (tokens as f64 * 1e3 / took.as_secs_f64()) as u32;
        let old = self.rate.load(Relaxed);
        // Each new rate counts one quarter: the mean is that of about the last dozen requests, however busy the engine
        // is now.
        let mean = if old == 0 { new } else { old - old / 4 + new / 4 };
        self.rate.store(mean.max(1), Relaxed);
    }

    /// Returns the recent rate of one answer, in tokens a second.
    pub(crate) fn rate(&self) -> f64 {
        match self.rate.load(Relaxed) {
            0 => UNKNOWN_RATE,
            rate => f64::from(rate) / 1e3,
        }
    }

    pub(crate) fn count(&self, endpoint: Endpoint, status: u16) {
        let class = usize::from(status / 100).saturating_sub(2).min(CLASSES.len() - 1);
        self.requests[endpoint as usize][class].fetch_add(1, Relaxed);
    }
}

/// The counts of all models.
#[derive(Debug, Default)]
pub struct Stats {
    models: Mutex<BTreeMap<String, Arc<ModelStats>>>,
    /// Counts under [`OTHER`].
    pub other: Arc<ModelStats>,
}

impl Stats {
    /// Returns the counts of a served name, for its route.
    pub fn of(&self, served_name: &str) -> Arc<ModelStats> {
        let mut models = self.lock();
        match models.get(served_name) {
            Some(stats) => Arc::clone(stats),
            None if models.len() >= MAX_MODELS || served_name == OTHER => Arc::clone(&self.other),
            None => Arc::clone(models.entry(served_name.to_owned()).or_default()),
        }
    }

    /// Forgets models that no catalog has any more.
    pub fn keep(&self, known: impl Fn(&str) -> bool) {
        self.lock().retain(|name, _| known(name));
    }

    /// Returns all counts, [`OTHER`] last.
    pub fn all(&self) -> Vec<(String, Arc<ModelStats>)> {
        let models = self.lock();
        let own = models.iter().map(|(name, stats)| (name.clone(), Arc::clone(stats)));
        own.chain([(OTHER.to_owned(), Arc::clone(&self.other))]).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ModelStats>>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.models.lock()
    }
}

fn zeros(n: usize) -> Box<[AtomicU64]> {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

fn micros(it: Duration) -> u64 {
    u64::try_from(it.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_percentile_is_near_the_sample_of_its_rank(
            mut values in prop::collection::vec(8_u64..3_600_000_000, 1..80), earlier in 8_u64..1_000_000, q in 0.01_f64..1.0,
        ) {
            let fine = Fine::default();
            fine.record(Duration::from_micros(earlier));
            let before = fine.read();
            for us in &values {
                fine.record(Duration::from_micros(*us));
            }
            values.sort_unstable();
            let exact = values[((values.len() as f64 * q).ceil() as usize).max(1) - 1] as f64;
            let found = Fine::percentile(&before, &fine.read(), q).unwrap().as_micros() as f64;
            prop_assert!((found - exact).abs() <= exact * 0.0625 + 1.0, "{found} for {exact}");
        }
    }

    #[test]
    fn without_a_sample_there_is_no_percentile() {
        let fine = Fine::default();
        fine.record(Duration::from_millis(5));
        let now = fine.read();
        assert_eq!(Fine::percentile(&now, &now, 0.5), None);
    }

    #[test]
    fn a_rate_is_that_of_the_last_answers() {
        let (stats, second) = (ModelStats::default(), Duration::from_secs(1));
        stats.note_rate(MIN_MEASURED - 1, second / 100);
        assert!((stats.rate() - UNKNOWN_RATE).abs() < 1e-9, "too short to say anything");
        stats.note_rate(200, second);
        assert!((stats.rate() - 200.0).abs() < 1e-9);
        for _ in 0..20 {
            stats.note_rate(100, second);
        }
        assert!((100.0..102.0).contains(&stats.rate()), "{}", stats.rate());
    }

    #[test]
    fn names_are_bounded() {
        let stats = Stats::default();
        for n in 0..MAX_MODELS + 50 {
            stats.of(&format!("m{n}")).count(Endpoint::Rerank, 200);
        }
        assert_eq!(stats.all().len(), MAX_MODELS + 1);
        let rerank = Endpoint::Rerank as usize;
        assert_eq!(stats.other.requests[rerank][0].load(Relaxed), 50);
        stats.keep(|name| name == "m7");
        assert_eq!(stats.all().len(), 2);
    }
}
