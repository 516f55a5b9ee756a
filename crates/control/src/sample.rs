//! Samples the machine and the data plane every ten seconds, and keeps the samples for a day in memory. A time without
//! samples (the gateway was off, a driver or a file system hung) is a gap.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_dataplane::{Shared, stats::Fine};
use gantry_domain::{
    Timestamp,
    host::{GpuNow, GpuTrends, HostNow, Point, Throughput, Trends},
    machine::{Gpu, HostMemory},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Control,
    machine::host::{self, Rates, Ticks},
};

/// Time between two samples.
pub const EVERY: Duration = Duration::from_secs(10);
const KEPT: usize = 24 * 360;
/// Length of time over which the data plane's rates are computed.
const WINDOW: Duration = Duration::from_mins(1);
/// Most points of a series; if there are more, they are averaged.
const MAX_POINTS: u64 = 720;
/// Shortest time between two looks from which a rate is computed.
const LEAST: Duration = Duration::from_secs(1);

/// One sample. Small, since a day has 8640.
#[derive(Debug, Clone)]
struct Sample {
    at: Timestamp,
    cpu_util_pct: Option<f32>,
    mem_used_mb: Option<u32>,
    disk_used_pct: Option<f32>,
    net_rx_bps: Option<u64>,
    net_tx_bps: Option<u64>,
    gpus: Box<[GpuSample]>,
}

/// Index, utilisation, used MiB.
type GpuSample = (u32, Option<u32>, Option<u32>);

/// The data plane's counters at one time.
struct Counted {
    at: Instant,
    requests: u64,
    prompt: u64,
    completion: u64,
    latency: Vec<u64>,
    ttft: Vec<u64>,
}

impl Counted {
    fn read(shared: &Shared) -> Self {
        let counters = &shared.counters;
        Self {
            at: Instant::now(),
            requests: counters.requests_total(),
            prompt: counters.prompt_tokens.load(Relaxed),
            completion: counters.completion_tokens.load(Relaxed),
            latency: counters.latency.read(),
            ttft: counters.ttft.read(),
        }
    }
}

/// The samples of the last day, and what is needed to take the next one.
#[derive(Default)]
pub struct Samples {
    ring: Mutex<VecDeque<Sample>>,
    counted: Mutex<VecDeque<Counted>>,
    last: Mutex<Last>,
    /// Held by a look until it ends, so that at most one look hangs.
    looking: Looking,
}

/// A semaphore with one permit.
struct Looking(Arc<Semaphore>);

impl Default for Looking {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// The readings from which rates are computed.
#[derive(Default)]
struct Last {
    ticks: Option<Ticks>,
    rates: Rates,
}

impl Samples {
    /// Returns the rates since the last look, or the last rates if that look was just now.
    fn rates(&self) -> Rates {
        let mut last = lock(&self.last);
        if last.ticks.is_some_and(|it| it.age() < LEAST) {
            return last.rates;
        }
        let ticks = Ticks::read();
        if let Some(before) = last.ticks.replace(ticks) {
            last.rates = ticks.since(&before);
        }
        last.rates
    }

    /// Looks at the machine. Blocking.
    fn measure(&self, at: Timestamp, folders: &[(&'static str, PathBuf)]) -> HostNow {
        let rates = self.rates();
        let swap = host::swap();
        let disks = host::disks(folders);
        HostNow {
            ts: at.rfc3339(),
            cpu_util_pct: rates.cpu_util_pct,
            cpu_count: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            load_avg: host::load_avg(),
            uptime_sec: host::uptime_sec(),
            swap_total_mb: swap.map(|it| it.0),
            swap_used_mb: swap.map(|it| it.1),
            disk_used_pct: disks.iter().map(|it| it.used_pct).reduce(f64::max),
            disks,
            net_rx_bps: rates.net_rx_bps,
            net_tx_bps: rates.net_tx_bps,
            gateway: host::process(),
            ..HostNow::default()
        }
    }

    /// Returns the result of `look`, if it comes within `patience`.
    async fn seen<T: Send + 'static>(
        self: &Arc<Self>,
        patience: Duration,
        look: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let samples = Arc::clone(self);
        let seen = async {
            let turn = Arc::clone(&self.looking.0).acquire_owned().await.ok()?;
            let look = tokio::task::spawn_blocking(move || {
                let seen = look(&samples);
                drop(turn);
                seen
            });
            look.await.ok()
        };
        tokio::time::timeout(patience, seen).await.ok()?
    }

    fn keep(&self, at: Timestamp, now: &HostNow) {
        let small = |it: Option<u64>| it.map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        let sample = Sample {
            at,
            cpu_util_pct: now.cpu_util_pct.map(|it| it as f32),
            mem_used_mb: small(now.mem_used_mb),
            disk_used_pct: now.disk_used_pct.map(|it| it as f32),
            net_rx_bps: now.net_rx_bps,
            net_tx_bps: now.net_tx_bps,
            gpus: now.gpus.iter().map(|it| (it.index, it.util_pct, small(it.mem_used_mb))).collect(),
        };
        let mut ring = lock(&self.ring);
        if ring.len() >= KEPT {
            ring.pop_front();
        }
        ring.push_back(sample);
    }

    /// Returns the samples of the last `minutes`.
    pub fn trends(&self, now: Timestamp, minutes: u64) -> Trends {
        let span = minutes * 60;
        let interval = span.div_ceil(MAX_POINTS).next_multiple_of(EVERY.as_secs());
        let oldest = now.minus(Duration::from_secs(span));
        let ring = lock(&self.ring);
        let samples: Vec<&Sample> = ring.iter().filter(|it| it.at > oldest && it.at <= now).collect();
        let series = |value: &dyn Fn(&Sample) -> Option<f64>| mean(&samples, interval, value);
        let mut gpu = BTreeMap::new();
        for index in samples.iter().flat_map(|it| it.gpus.iter().map(|it| it.0)) {
            gpu.entry(index).or_insert_with(|| {
                let of = |sample: &Sample| sample.gpus.iter().find(|it| it.0 == index).copied();
                GpuTrends {
                    util_pct: series(&|it| of(it)?.1.map(f64::from)),
                    mem_used_mb: series(&|it| of(it)?.2.map(f64::from)),
                }
            });
        }
        Trends {
            interval_sec: interval,
            cpu_util_pct: series(&|it| it.cpu_util_pct.map(f64::from)),
            mem_used_mb: series(&|it| it.mem_used_mb.map(f64::from)),
            disk_used_pct: series(&|it| it.disk_used_pct.map(f64::from)),
            net_rx_bps: series(&|it| it.net_rx_bps.map(|it| it as f64)),
            net_tx_bps: series(&|it| it.net_tx_bps.map(|it| it as f64)),
            gpu,
        }
    }

    fn count(&self, shared: &Shared) {
        let mut counted = lock(&self.counted);
        // Keeps the reading that is a whole window old, and those that came after it.
        while counted.get(1).is_some_and(|it| it.at.elapsed() >= WINDOW) {
            counted.pop_front();
        }
        counted.push_back(Counted::read(shared));
    }

    /// Returns the data plane's throughput over about the last minute.
    pub fn throughput(&self, shared: &Shared) -> Throughput {
        let now = Counted::read(shared);
        let counted = lock(&self.counted);
        let active = Throughput {
            active_requests: shared.counters.in_flight.load(Relaxed),
            active_streams: shared.counters.streams.load(Relaxed),
            ..Throughput::default()
        };
        let Some(before) = counted.iter().rfind(|it| now.at - it.at >= WINDOW).or_else(|| counted.front())
        else {
            return active;
        };
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let rate = |now: u64, before: u64| {
            let per_second = now.saturating_sub(before) as f64 / seconds.max(1e-3);
            (per_second * 1e3).round() / 1e3
        };
        let ms = |before: &[u64], now: &[u64], q| {
            Fine::percentile(before, now, q).map(|it| host::tenths(it.as_secs_f64() * 1e3))
        };
        Throughput {
            req_per_sec: rate(now.requests, before.requests),
            prompt_tokens_per_sec: rate(now.prompt, before.prompt),
            generation_tokens_per_sec: rate(now.completion, before.completion),
            latency_p50_ms: ms(&before.latency, &now.latency, 0.5),
            latency_p95_ms: ms(&before.latency, &now.latency, 0.95),
            ttft_p50_ms: ms(&before.ttft, &now.ttft, 0.5),
            ttft_p95_ms: ms(&before.ttft, &now.ttft, 0.95),
            window_sec: (seconds * 1e3).round() / 1e3,
            ..active
        }
    }
}

/// Returns the mean of each interval that has a value. Intervals are counted from the epoch, so that a later answer has
/// the same points.
fn mean(samples: &[&Sample], interval: u64, value: &dyn Fn(&Sample) -> Option<f64>) -> Vec<Point> {
    let width = (interval * 1000) as i64;
    let mut points: Vec<(i64, Timestamp, f64, u32)> = Vec::new();
    for sample in samples {
        let Some(value) = value(sample) else { continue };
        let slot = sample.at.0.div_euclid(width);
        match points.last_mut() {
            Some((last, at, sum, n)) if *last == slot => (*at, *sum, *n) = (sample.at, *sum + value, *n + 1),
            _ => points.push((slot, sample.at, value, 1)),
        }
    }
    let point = |(_, at, sum, n): (i64, Timestamp, f64, u32)| Point {
        ts: at.rfc3339(),
        value: host::tenths(sum / f64::from(n)),
    };
    points.into_iter().map(point).collect()
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics while it holds a lock; a poisoned one is still consistent.
    it.lock()
}

impl Control {
    /// Looks at the machine. If a driver hangs, the GPUs are missing; if a file system hangs, there is no answer.
    pub async fn host_now(&self) -> Option<HostNow> {
        let (at, folders) = (self.clock.now(), self.folders());
        let seen = self.machine.refresh().await;
        let mut now = self.samples.seen(EVERY / 2, move |it| it.measure(at, &folders)).await?;
        (now.mem_total_mb, now.mem_used_mb) = memory(seen.memory);
        now.gpus = seen.gpus.iter().map(gpu).collect();
        Some(now)
    }

    fn folders(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("data", self.config.data_dir.clone()),
            ("models", self.config.models_dir.get().to_path_buf()),
            ("hub_cache", self.config.hub_cache_dir.clone()),
        ]
    }
}

fn memory(seen: Option<HostMemory>) -> (Option<u64>, Option<u64>) {
    let mib = |bytes: u64| bytes >> 20;
    (seen.map(|it| mib(it.total)), seen.map(|it| mib(it.total.saturating_sub(it.available))))
}

fn gpu(it: &Gpu) -> GpuNow {
    GpuNow {
        index: it.index,
        name: it.name.clone(),
        mem_total_mb: it.memory.map(|it| it.total >> 20),
        mem_used_mb: it.memory.map(|it| it.total.saturating_sub(it.free) >> 20),
        util_pct: it.load.util_pct,
        temperature_c: it.load.temperature_c,
        power_w: it.load.power_w,
    }
}

/// Samples until `stop`.
pub async fn run(control: Arc<Control>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        control.samples.count(&control.shared);
        let at = control.clock.now();
        if let Some(now) = control.host_now().await {
            control.samples.keep(at, &now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1000;

    fn sampled(samples: &Samples, at: i64, cpu: f64) {
        samples.keep(Timestamp(at), &HostNow { cpu_util_pct: Some(cpu), ..HostNow::default() });
    }

    #[test]
    fn a_gap_stays_one_and_what_is_averaged_is_what_was_sampled() {
        let samples = Samples::default();
        for n in 0..360 {
            if !(100..200).contains(&n) {
                sampled(&samples, n * 10 * SECOND, if n < 100 { 10.0 } else { 30.0 });
            }
        }
        let now = Timestamp(3600 * SECOND);
        let hour = samples.trends(now, 60);
        assert_eq!((hour.interval_sec, hour.cpu_util_pct.len()), (10, 259));
        assert!(hour.mem_used_mb.is_empty(), "nothing was known of it");
        // A day has 8640 samples, of which twelve make a point.
        let day = samples.trends(now, 1440);
        assert_eq!(day.interval_sec, 120);
        assert_eq!(day.cpu_util_pct.len(), 9 + 14);
        assert!(day.cpu_util_pct.iter().all(|it| [10.0, 30.0].contains(&it.value)), "{day:?}");
        assert_eq!(samples.trends(now, 1).cpu_util_pct.len(), 5);
    }

    #[tokio::test]
    async fn looks_that_hang_are_one_at_a_time() {
        use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

        let (samples, begun) = (Arc::new(Samples::default()), Arc::new(AtomicUsize::new(0)));
        let (release, released) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(released));
        for _ in 0..5 {
            let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
            let look = move |_: &Samples| {
                begun.fetch_add(1, SeqCst);
                // Waits until the other end is gone.
                let _ = gate.lock().recv();
            };
            assert_eq!(samples.seen(Duration::from_millis(20), look).await, None);
        }
        assert_eq!(begun.load(SeqCst), 1);
        drop(release);
        assert_eq!(samples.seen(Duration::from_mins(1), |_| 7).await, Some(7), "it is back");
    }

    #[test]
    fn a_day_is_kept_and_no_more() {
        let samples = Samples::default();
        for n in 0..9000 {
            sampled(&samples, n * 10 * SECOND, 1.0);
        }
        let ring = lock(&samples.ring);
        assert_eq!((ring.len(), ring[0].at), (KEPT, Timestamp(360 * 10 * SECOND)));
    }
}
