//! The simulated engine behind the HTTP surface: slots, pace, counters and the faults that strike
//! while tokens are made.
//!
//! One [`Decode`] is one request being generated. If the client leaves, it is dropped unfinished, so generation stops
//! with the connection and is counted as cancelled.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::Config;

/// Counters of what the simulator did.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// How often the list of models was requested.
    pub lists: AtomicU64,
    pub requests: AtomicU64,
    pub completed: AtomicU64,
    pub cancelled: AtomicU64,
    pub failed: AtomicU64,
    pub tokens_generated: AtomicU64,
    pub prompt_tokens: AtomicU64,
    pub in_flight: AtomicU64,
    pub waiting: AtomicU64,
    pub finished_stop: AtomicU64,
    pub finished_length: AtomicU64,
    pub longest: AtomicU64,
    pub ttft_us: AtomicU64,
    pub decode_us: AtomicU64,
    pub latency_us: AtomicU64,
}

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct Engine {
    pub config: Config,
    pub counters: Counters,
    pub loading: AtomicBool,
    /// Unix time in seconds at which the process started.
    pub started: u64,
    slots: Arc<Semaphore>,
    crash: watch::Sender<bool>,
}

impl Engine {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(config.slots.clamp(1, 1 << 20) as usize));
        let loading = AtomicBool::new(false);
        let crash = watch::Sender::new(false);
        Arc::new(Self { config, counters: Counters::default(), loading, started: unix_now(), slots, crash })
    }

    /// Resolves when generation has hit `--sim-crash-after-tokens`.
    pub(crate) async fn crashed(&self) {
        let mut receiver = self.crash.subscribe();
        if receiver.wait_for(|crashed| *crashed).await.is_err() {
            pending::<()>().await;
        }
    }

    pub(crate) fn has_crashed(&self) -> bool {
        *self.crash.borrow()
    }
}

/// The reason why no further token comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is about to end.
    Crashed,
    /// `--sim-error-after`.
    Injected,
}

/// How an answer ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
    ToolCalls,
}

impl Finish {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// One request being worked on.
#[derive(Debug)]
pub(crate) struct Decode {
    engine: Arc<Engine>,
    prompt_tokens: u32,
    emitted: u64,
    arrived: Instant,
    first: Option<Instant>,
    settled: bool,
    permit: Option<OwnedSemaphorePermit>,
}

impl Decode {
    /// Counts the request as begun; nothing is generated yet.
    pub(crate) fn admit(engine: &Arc<Engine>, prompt_tokens: u32) -> Self {
        let counters = &engine.counters;
        counters.requests.fetch_add(1, Relaxed);
        counters.in_flight.fetch_add(1, Relaxed);
        counters.prompt_tokens.fetch_add(u64::from(prompt_tokens), Relaxed);
        Self {
            engine: Arc::clone(engine),
            prompt_tokens,
            emitted: 0,
            arrived: Instant::now(),
            first: None,
            settled: false,
            permit: None,
        }
    }

    /// Waits for a free slot and for the time to the first token.
    pub(crate) async fn start(&mut self) {
        let faults = &self.engine.config.faults;
        if faults.hang {
            pending::<()>().await;
        }
        let waiting = Waiting::new(&self.engine);
        // The semaphore is never closed. If it were, requests would just run without a limit.
        self.permit = Arc::clone(&self.engine.slots).acquire_owned().await.ok();
        drop(waiting);
        if !faults.ttft.is_zero() {
            sleep(faults.ttft).await;
        }
        self.first = Some(Instant::now());
    }

    /// Generates one token at the configured pace.
    pub(crate) async fn token(&mut self) -> Result<(), Fault> {
        let faults = &self.engine.config.faults;
        if faults.error_after.is_some_and(|limit| self.emitted >= limit) {
            return Err(Fault::Injected);
        }
        if faults.hang_after_tokens.is_some_and(|limit| self.emitted >= limit) {
            pending::<()>().await;
        }
        if faults.tokens_per_sec > 0.0 && self.emitted > 0 {
            // The time is counted from the first token, so that the pace stays the same however long a write takes.
            let since = Duration::from_secs_f64(self.emitted as f64 / faults.tokens_per_sec);
            sleep_until(self.first.unwrap_or(self.arrived) + since).await;
        } else {
            tokio::task::yield_now().await;
        }
        if self.engine.has_crashed() {
            return Err(Fault::Crashed);
        }
        let total = self.engine.counters.tokens_generated.fetch_add(1, Relaxed) + 1;
        self.emitted += 1;
        if faults.crash_after_tokens.is_some_and(|limit| total >= limit) {
            self.engine.crash.send_replace(true);
            return Err(Fault::Crashed);
        }
        Ok(())
    }

    /// Counts the answer as complete.
    pub(crate) fn finish(mut self, finish: Finish) -> Timings {
        self.settled = true;
        let counters = &self.engine.counters;
        counters.completed.fetch_add(1, Relaxed);
        let by_reason = match finish {
            Finish::Length => &counters.finished_length,
            Finish::Stop | Finish::ToolCalls => &counters.finished_stop,
        };
        by_reason.fetch_add(1, Relaxed);
        counters.longest.fetch_max(u64::from(self.prompt_tokens) + self.emitted, Relaxed);
        let first = self.first.unwrap_or(self.arrived);
        let prompt = first - self.arrived;
        let decode = first.elapsed();
        counters.ttft_us.fetch_add(prompt.as_micros() as u64, Relaxed);
        counters.decode_us.fetch_add(decode.as_micros() as u64, Relaxed);
        counters.latency_us.fetch_add((prompt + decode).as_micros() as u64, Relaxed);
        Timings { prompt, decode }
    }

    /// Counts the answer as failed, with an error that the simulator made.
    pub(crate) fn fail(mut self) {
        self.settled = true;
        self.engine.counters.failed.fetch_add(1, Relaxed);
    }
}

impl Drop for Decode {
    fn drop(&mut self) {
        let counters = &self.engine.counters;
        counters.in_flight.fetch_sub(1, Relaxed);
        if !self.settled {
            counters.cancelled.fetch_add(1, Relaxed);
        }
    }
}

/// How long the two phases of an answer took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timings {
    pub prompt: Duration,
    pub decode: Duration,
}

/// Counts a request as queued until this value is dropped, also when its client leaves.
struct Waiting<'a>(&'a Engine);

impl<'a> Waiting<'a> {
    fn new(engine: &'a Engine) -> Self {
        engine.counters.waiting.fetch_add(1, Relaxed);
        Self(engine)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.counters.waiting.fetch_sub(1, Relaxed);
    }
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the simulator is its own process and has no Clock")]
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
