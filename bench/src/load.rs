//! The load generator: closed loop, fixed rate or concurrent streams, one measured window after a warm-up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    shot::{Connection, Shot},
    stats::percentile,
    steal::{Clock, Stolen, Watch},
};

/// Number of connections of the fixed-rate load. With `n` of them an answer may take `n / rate` before a request is
/// late.
const OPEN_LOOP_CONNECTIONS: u32 = 16;

/// Pause of a worker after an error, so that a dead proxy does not make the load generator spin.
const AFTER_ERROR: Duration = Duration::from_millis(5);

/// When requests are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// Each connection sends its next request when the answer to the last has come; connections start over `ramp`.
    Closed { n_connections: u32, ramp: Duration },
    /// A fixed number of requests per second, however long the answers take.
    Open { rate_per_s: f64 },
}

/// How long to load, and which part of it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    /// Longest time for requests under way at the end of the window before they count as errors.
    pub(crate) drain: Duration,
}

/// Results of a load. Latencies are those of whole answers, or up to the first byte for streams, and without those in which the
/// host took the CPUs away (see [`Stolen`]).
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    /// Unary: complete answers in the window. Streams: complete answers overall.
    pub(crate) requests: u64,
    /// Over the whole run, warm-up and drain included.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) rps: f64,
    pub(crate) p50_us: u32,
    pub(crate) p90_us: u32,
    pub(crate) p99_us: u32,
    /// Share of the window in which the host took CPUs away.
    pub(crate) stolen: f64,
    /// Share of all CPUs' time in the window that the host took.
    pub(crate) steal: f64,
    /// SSE events that came in the window.
    pub(crate) chunks: u64,
    /// Complete answers of the whole run, warm-up and drain included.
    pub(crate) all_requests: u64,
    /// SSE events of the whole run.
    pub(crate) all_chunks: u64,
    pub(crate) measured_s: f64,
}

/// Stages of a load; 0 is the warm-up.
const MEASURING: u8 = 1;
const ENDING: u8 = 2;

#[derive(Debug, Default)]
struct Shared {
    stage: AtomicU8,
    n_chunks: AtomicU64,
    n_all_chunks: AtomicU64,
    n_answers: AtomicU64,
    n_errors: AtomicU64,
    first_error: Mutex<Option<String>>,
}

impl Shared {
    fn is(&self, stage: u8) -> bool {
        self.stage.load(Relaxed) == stage
    }

    fn chunks(&self, n: u64) {
        if n > 0 {
            self.n_all_chunks.fetch_add(n, Relaxed);
            if self.is(MEASURING) {
                self.n_chunks.fetch_add(n, Relaxed);
            }
        }
    }

    fn fail(&self, error: &anyhow::Error) {
        self.n_errors.fetch_add(1, Relaxed);
        let mut first = self.first_error.lock();
        first.get_or_insert_with(|| format!("{error:#}"));
    }
}

/// Runs one load and calls `probe` at both ends of the measured window.
pub(crate) async fn run<T>(
    shot: Shot,
    pace: Pace,
    window: Window,
    probe: impl Fn() -> Result<T>,
) -> Result<(Outcome, [T; 2])> {
    let (shot, shared) = (Arc::new(shot), Arc::new(Shared::default()));
    let watch = Watch::start();
    let mut workers = start(&shot, pace, &shared);
    sleep(window.warm_up).await;
    let first = probe()?;
    let (began, clock) = (Instant::now(), Clock::start());
    shared.stage.store(MEASURING, Relaxed);
    sleep(window.measured).await;
    let (ended, steal) = (Instant::now(), clock.steal());
    let measured_s = (ended - began).as_secs_f64();
    let last = probe()?;
    shared.stage.store(ENDING, Relaxed);

    let mut latencies = Vec::new();
    let collected = timeout(window.drain, async {
        while let Some(worker) = workers.join_next().await {
            latencies.extend(worker.context("a load worker panicked")?);
        }
        anyhow::Ok(())
    });
    if let Ok(result) = collected.await {
        result?;
    } else {
        for _ in 0..workers.len() {
            shared.fail(&anyhow::anyhow!("no complete answer {:?} after the end", window.drain));
        }
        workers.shutdown().await;
    }
    let stolen = watch.end().await?;
    let n_requests = latencies.len();
    let latencies = undisturbed(&latencies, &stolen);
    let first_error = shared.first_error.lock().take();
    let outcome = Outcome {
        requests: n_requests as u64,
        errors: shared.n_errors.load(Relaxed),
        first_error,
        rps: n_requests as f64 / measured_s,
        p50_us: percentile(&latencies, 0.50),
        p90_us: percentile(&latencies, 0.90),
        p99_us: percentile(&latencies, 0.99),
        stolen: stolen.share(began.into_std(), ended.into_std()),
        steal,
        chunks: shared.n_chunks.load(Relaxed),
        all_requests: shared.n_answers.load(Relaxed),
        all_chunks: shared.n_all_chunks.load(Relaxed),
        measured_s,
    };
    Ok((outcome, [first, last]))
}

/// Returns the latencies in µs, ascending, without those that the host disturbed; all if it disturbed every one.
fn undisturbed(all: &[Latency], stolen: &Stolen) -> Vec<u32> {
    let is_clean = |it: &&Latency| !stolen.has(it.since.into_std(), it.heard.into_std());
    let mut clean: Vec<u32> = all.iter().filter(is_clean).map(Latency::micros).collect();
    if clean.is_empty() {
        clean = all.iter().map(Latency::micros).collect();
    }
    clean.sort_unstable();
    clean
}

/// Opens `n` streams and keeps them open. When it returns, each has delivered its first event.
pub(crate) async fn hold_streams(shot: &Shot, n: usize) -> Result<Vec<Connection>> {
    const AT_ONCE: usize = 16;
    let shot = Arc::new(shot.clone());
    let (mut opening, mut open) = (JoinSet::new(), Vec::with_capacity(n));
    let mut n_started = 0;
    while open.len() < n {
        while n_started < n && opening.len() < AT_ONCE {
            let shot = Arc::clone(&shot);
            opening.spawn(async move {
                let mut connection = Connection::open(&shot).await?;
                timeout(Duration::from_secs(10), connection.open_stream(&shot)).await??;
                anyhow::Ok(connection)
            });
            n_started += 1;
        }
        let Some(opened) = opening.join_next().await else { bail!("{} of {n} streams open", open.len()) };
        open.push(opened?.with_context(|| format!("stream {} of {n} did not open", open.len() + 1))?);
    }
    Ok(open)
}

fn start(shot: &Arc<Shot>, pace: Pace, shared: &Arc<Shared>) -> JoinSet<Vec<Latency>> {
    let mut workers = JoinSet::new();
    let began = Instant::now();
    match pace {
        Pace::Closed { n_connections, ramp } => {
            for i in 0..n_connections {
                let worker = Worker::new(shot, shared);
                let at = began + ramp * i / n_connections.max(1);
                workers.spawn(worker.closed(at));
            }
        }
        Pace::Open { rate_per_s } => {
            let gap = Duration::from_secs_f64(1.0 / rate_per_s.max(0.1));
            for i in 0..OPEN_LOOP_CONNECTIONS {
                let worker = Worker::new(shot, shared);
                workers.spawn(worker.open(began + gap * i, gap * OPEN_LOOP_CONNECTIONS));
            }
        }
    }
    workers
}

/// When a request was sent, or was due, and when its answer was heard.
#[derive(Debug, Clone, Copy)]
struct Latency {
    since: Instant,
    heard: Instant,
}

impl Latency {
    fn micros(&self) -> u32 {
        self.heard.saturating_duration_since(self.since).as_micros() as u32
    }
}

/// The work of one connection. It returns the latencies that count.
struct Worker {
    shot: Arc<Shot>,
    shared: Arc<Shared>,
    connection: Option<Connection>,
    latencies: Vec<Latency>,
}

impl Worker {
    fn new(shot: &Arc<Shot>, shared: &Arc<Shared>) -> Self {
        let (shot, shared) = (Arc::clone(shot), Arc::clone(shared));
        Self { shot, shared, connection: None, latencies: Vec::new() }
    }

    async fn closed(mut self, begin: Instant) -> Vec<Latency> {
        sleep_until(begin).await;
        while !self.shared.is(ENDING) {
            self.shoot(Instant::now()).await;
        }
        self.latencies
    }

    async fn open(mut self, begin: Instant, gap: Duration) -> Vec<Latency> {
        let mut due = begin;
        loop {
            // The latency of a request that had to wait for the answer before it is counted from when it was due.
            // Otherwise a slow proxy would slow the load down and look fast. The latency of a request that was sent on
            // time is counted from its sending: the timer is up to a millisecond late, which is not the proxy's fault.
            let was_late = Instant::now() > due;
            sleep_until(due).await;
            if self.shared.is(ENDING) {
                return self.latencies;
            }
            self.shoot(if was_late { due } else { Instant::now() }).await;
            due += gap;
        }
    }

    async fn shoot(&mut self, since: Instant) {
        let shot = self.try_shoot().await;
        if shot.is_ok() {
            self.shared.n_answers.fetch_add(1, Relaxed);
        }
        match shot {
            // A stream lasts longer than the window, so all streams that were completed count.
            Ok(heard) if self.shared.is(MEASURING) || self.shot.is_sse() => {
                self.latencies.push(Latency { since, heard });
            }
            Ok(_) => {}
            Err(error) => {
                self.shared.fail(&error);
                sleep(AFTER_ERROR).await;
            }
        }
    }

    /// Sends the request once. Keeps the connection only after an exchange without error.
    async fn try_shoot(&mut self) -> Result<Instant> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.shot).await?,
        };
        let first_byte = connection.exchange(&self.shot, |n| self.shared.chunks(n)).await?;
        if connection.is_reusable() {
            self.connection = Some(connection);
        }
        Ok(if self.shot.is_sse() { first_byte } else { Instant::now() })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::{mock, shot::Ask};

    const WINDOW: Window = Window {
        warm_up: Duration::from_millis(50),
        measured: Duration::from_millis(200),
        drain: Duration::from_secs(10),
    };

    async fn with_mock() -> (SocketAddr, JoinSet<Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(mock::serve(listener));
        (addr, tasks)
    }

    async fn load(addr: SocketAddr, ask: Ask, pace: Pace) -> Outcome {
        run(Shot::new(addr, "k", ask), pace, WINDOW, || Ok(())).await.unwrap().0
    }

    #[tokio::test]
    async fn closed_loop_counts_and_has_no_errors() {
        let (addr, _mock) = with_mock().await;
        let pace = Pace::Closed { n_connections: 4, ramp: Duration::ZERO };
        let seen = load(addr, Ask::Unary { body_bytes: 65536 }, pace).await;
        assert_eq!((seen.errors, seen.first_error, seen.chunks), (0, None, 0));
        assert!(seen.requests > 0 && seen.all_requests > seen.requests);
        assert!(seen.p50_us > 0 && seen.p50_us <= seen.p90_us && seen.p90_us <= seen.p99_us);
    }

    #[tokio::test]
    async fn open_loop_keeps_its_rate() {
        let (addr, _mock) = with_mock().await;
        let began = Instant::now();
        let seen = load(addr, Ask::Unary { body_bytes: 200 }, Pace::Open { rate_per_s: 200.0 }).await;
        assert_eq!(seen.errors, 0);
        // However slow the machine is meanwhile, no more requests than were due by now can have been sent.
        let n_due = (began.elapsed().as_secs_f64() * 200.0) as u64 + u64::from(OPEN_LOOP_CONNECTIONS);
        assert!((1..=n_due).contains(&seen.requests), "{} of {n_due}", seen.requests);
    }

    #[tokio::test]
    async fn streams_are_verified_to_their_end() {
        let (addr, _mock) = with_mock().await;
        let ask = Ask::Stream { n_chunks: 25, interval: Duration::from_millis(10) };
        let pace = Pace::Closed { n_connections: 5, ramp: Duration::from_millis(20) };
        let seen = load(addr, ask, pace).await;
        assert_eq!((seen.errors, seen.first_error), (0, None));
        assert!(seen.requests >= 5);
        assert!(seen.chunks > 0 && seen.all_chunks > seen.chunks);
    }

    #[tokio::test]
    async fn streams_that_are_cut_or_refused_are_errors() {
        let (addr, _mock) = with_mock().await;
        let window = Window { drain: Duration::ZERO, ..WINDOW };
        let ask = Ask::Stream { n_chunks: 10, interval: Duration::from_mins(1) };
        let pace = Pace::Closed { n_connections: 3, ramp: Duration::ZERO };
        let (seen, _) = run(Shot::new(addr, "k", ask), pace, window, || Ok(())).await.unwrap();
        assert_eq!((seen.requests, seen.errors), (0, 3));

        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let seen = load(nobody, Ask::Unary { body_bytes: 200 }, pace).await;
        assert!(seen.requests == 0 && seen.errors > 0);
        assert!(seen.first_error.unwrap().starts_with("cannot connect"));
    }

    #[tokio::test]
    async fn held_streams_are_open() {
        let (addr, _mock) = with_mock().await;
        let ask = Ask::Stream { n_chunks: 1, interval: Duration::from_mins(1) };
        let held = hold_streams(&Shot::new(addr, "k", ask), 40).await.unwrap();
        assert_eq!(held.len(), 40);
        assert!(held.iter().all(|it| !it.is_reusable()));
    }
}
