//! The measured phases: the load of each, and the content of a sample.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use serde::Serialize;
use tokio::time::sleep;

use crate::{
    load::{self, Outcome, Pace, Window},
    procfs,
    shot::{Ask, Shot},
};

/// What is loaded: a proxy, or the mock itself.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) addr: SocketAddr,
    pub(crate) key: String,
    /// The process whose tree is charged; `None` for the mock, whose cost does not matter.
    pub(crate) pid: Option<u32>,
}

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Small bodies, closed loop with 64 connections: the proxy's core is full.
    Unary,
    /// 64 KiB bodies, closed loop with 8 connections.
    ///
    /// Closed loop rather than 200 requests per second: at that rate most of the cost is waking up, not the body.
    Unary64k,
    /// Concurrent streams at a steady pace.
    Sse,
    /// Small bodies at 200 requests per second: what the proxy adds to the latency.
    Latency,
    /// The same at 50 requests per second, between which everything falls asleep.
    LatencySlow,
}

impl Phase {
    pub(crate) const ALL: [Self; 5] =
        [Self::Unary, Self::Unary64k, Self::Sse, Self::Latency, Self::LatencySlow];

    /// The name in the results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::Unary64k => "unary_64k",
            Self::Sse => "sse",
            Self::Latency => "latency",
            Self::LatencySlow => "latency_slow",
        }
    }

    /// Whether the mock itself is measured too, because what a proxy adds is the difference.
    pub(crate) const fn needs_direct(self) -> bool {
        matches!(self, Self::Latency | Self::LatencySlow)
    }
}

/// How long and how often everything is measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Scale {
    /// How often each phase is measured on all targets, one right after the other.
    pub(crate) n_turns: u32,
    warm_up_ms: u32,
    unary_ms: u32,
    sse_ms: u32,
    n_streams: u32,
    chunk_interval_ms: u32,
    latency_ms: u32,
    n_idle_streams: u32,
    /// How long a proxy without requests is watched.
    pub(crate) idle_ms: u32,
    /// How long a proxy may take until it is at rest.
    rest_ms: u32,
    /// Whether instructions are counted.
    pub(crate) counts: bool,
}

impl Scale {
    /// About three minutes in total.
    pub(crate) const QUICK: Self = Self {
        n_turns: 3,
        warm_up_ms: 500,
        unary_ms: 2000,
        sse_ms: 3000,
        n_streams: 200,
        // The pace is faster than in the full run, because few streams must bring many chunks.
        chunk_interval_ms: 20,
        latency_ms: 3000,
        n_idle_streams: 1000,
        idle_ms: 2000,
        rest_ms: 20_000,
        counts: false,
    };

    /// About twelve minutes in total.
    pub(crate) const FULL: Self = Self {
        n_turns: 7,
        unary_ms: 3000,
        sse_ms: 6000,
        n_streams: 1000,
        chunk_interval_ms: 50,
        latency_ms: 4000,
        idle_ms: 20_000,
        counts: true,
        ..Self::QUICK
    };

    /// Very short times for everything: they test whether it works, not what it costs.
    #[cfg(test)]
    const TINY: Self = Self {
        n_turns: 1,
        warm_up_ms: 50,
        unary_ms: 200,
        sse_ms: 200,
        n_streams: 5,
        latency_ms: 200,
        n_idle_streams: 10,
        // The test's own process is what it measures, and its looking keeps that from being at rest.
        rest_ms: 800,
        ..Self::QUICK
    };
}

/// One measurement of one phase of one target.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
    /// User + system time of the target's tree per request, or per chunk for [`Phase::Sse`]: all of it from the first request
    /// until the target is at rest again, over all requests. So what it does later for a request counts.
    pub(crate) cpu_us: Option<f64>,
    /// CPU time of the target's tree as a share of the window: 1 is one full core.
    pub(crate) busy: Option<f64>,
}

/// Loads `target` once.
pub(crate) async fn measure(phase: Phase, target: &Target, scale: &Scale) -> Result<Sample> {
    let (ask, pace, window) = load_of(phase, scale);
    let shot = Shot::new(target.addr, &target.key, ask);
    let used = async || match target.pid {
        Some(pid) => at_rest(pid, millis(scale.rest_ms)).await,
        None => Ok(Duration::ZERO),
    };
    let rested = used().await?;
    let probe = || target.pid.map_or(Ok(Duration::ZERO), procfs::cpu);
    let (outcome, [before, after]) = load::run(shot, pace, window, probe).await?;
    let all = used().await?.saturating_sub(rested);
    let n_units = if phase == Phase::Sse { outcome.all_chunks } else { outcome.all_requests };
    let (name, phase, errors) = (target.name, phase.name(), outcome.errors);
    let told = outcome.first_error.as_deref().unwrap_or("none");
    ensure!(n_units > 0, "{phase} of {name}: nothing came back; {errors} errors, the first: {told}");
    let in_window = after.saturating_sub(before).as_secs_f64();
    Ok(Sample {
        cpu_us: target.pid.map(|_| all.as_secs_f64() * 1e6 / n_units as f64),
        busy: target.pid.map(|_| in_window / outcome.measured_s),
        outcome,
    })
}

/// Waits until a process and its descendants have nothing left to do, but not longer than `at_most`. Returns the CPU time that
/// they have used.
async fn at_rest(pid: u32, at_most: Duration) -> Result<Duration> {
    const LOOK: Duration = Duration::from_millis(400);
    const IDLE: Duration = Duration::from_millis(2);
    let mut used = procfs::cpu(pid)?;
    for _ in 0..at_most.as_millis() / LOOK.as_millis() {
        sleep(LOOK).await;
        let now = procfs::cpu(pid)?;
        if now.saturating_sub(used) <= IDLE {
            return Ok(now);
        }
        used = now;
    }
    Ok(used)
}

/// Returns the share of one core, in percent, that a target takes that nobody asks anything.
pub(crate) async fn idle_cpu_percent(pid: u32, scale: &Scale) -> Result<f64> {
    let before = at_rest(pid, millis(scale.rest_ms)).await?;
    let watched = millis(scale.idle_ms);
    sleep(watched).await;
    let used = procfs::cpu(pid)?.saturating_sub(before);
    Ok(used.as_secs_f64() / watched.as_secs_f64() * 100.0)
}

/// Returns the resident memory that one open stream without traffic takes, in KiB.
///
/// Call it once and on a fresh process: allocators keep what earlier streams took.
pub(crate) async fn kib_per_stream(target: &Target, scale: &Scale) -> Result<Option<f64>> {
    let Some(pid) = target.pid else { return Ok(None) };
    // The interval is so long that the first content chunk never comes; only the role chunk is sent.
    let ask = Ask::Stream { n_chunks: 1, interval: Duration::from_mins(2) };
    let shot = Shot::new(target.addr, &target.key, ask);
    // The code and tables that the first streams load must not count for the further ones.
    drop(load::hold_streams(&shot, 8).await?);
    sleep(SETTLE).await;
    let before = procfs::rss_kib(pid)?;
    let held = load::hold_streams(&shot, scale.n_idle_streams as usize).await?;
    sleep(SETTLE).await;
    let after = procfs::rss_kib(pid)?;
    let per_stream = after.saturating_sub(before) as f64 / held.len() as f64;
    drop(held);
    sleep(SETTLE).await;
    Ok(Some(per_stream))
}

/// Time until memory and connections of a proxy are at rest.
const SETTLE: Duration = Duration::from_millis(500);

const DRAIN: Duration = Duration::from_secs(10);

fn load_of(phase: Phase, scale: &Scale) -> (Ask, Pace, Window) {
    let warm_up = millis(scale.warm_up_ms);
    let window = |measured_ms| Window { warm_up, measured: millis(measured_ms), drain: DRAIN };
    let closed = |n_connections| Pace::Closed { n_connections, ramp: Duration::ZERO };
    match phase {
        Phase::Unary => (Ask::Unary { body_bytes: 200 }, closed(64), window(scale.unary_ms)),
        Phase::Unary64k => (Ask::Unary { body_bytes: 64 * 1024 }, closed(8), window(scale.unary_ms)),
        Phase::Sse => {
            // Streams start over the first half of the warm-up, so that their chunks do not all come in the same
            // millisecond.
            let ramp = warm_up;
            let window = Window { warm_up: warm_up * 2, ..window(scale.sse_ms) };
            let interval = millis(scale.chunk_interval_ms);
            // The first stream to start outlives the window, so that none ends and none begins inside it.
            let life = window.warm_up + window.measured + warm_up;
            let n_chunks = (life.as_millis() / interval.as_millis().max(1)) as u64;
            let pace = Pace::Closed { n_connections: scale.n_streams, ramp };
            (Ask::Stream { n_chunks, interval }, pace, window)
        }
        Phase::Latency | Phase::LatencySlow => {
            let rate_per_s = if phase == Phase::Latency { 200.0 } else { 50.0 };
            (Ask::Unary { body_bytes: 200 }, Pace::Open { rate_per_s }, window(scale.latency_ms))
        }
    }
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

#[cfg(test)]
mod tests {
    use tokio::{net::TcpListener, task::JoinSet};

    use super::*;
    use crate::mock;

    #[tokio::test]
    async fn every_phase_runs_without_errors_against_the_mock() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(mock::serve(listener));
        let target = Target { name: "mock", addr, key: "k".to_owned(), pid: Some(std::process::id()) };
        for phase in Phase::ALL {
            let sample = measure(phase, &target, &Scale::TINY).await.unwrap();
            assert_eq!((sample.outcome.errors, sample.outcome.first_error), (0, None), "{phase:?}");
            assert!(sample.cpu_us.is_some_and(|it| it >= 0.0));
        }
        assert!(kib_per_stream(&target, &Scale::TINY).await.unwrap().is_some());
    }
}
