//! Shares limits among several gateways, through Redis or Valkey. The data plane decides on requests by what it knows
//! (see [`gantry_dataplane::limits`]). This task exchanges that knowledge with the other gateways: soon after each
//! change, and each second for accounts in use. While the server is away or slow, the data plane goes on with its share
//! of each limit.

mod redis;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use ::redis::RedisError;
use gantry_dataplane::{
    Shared,
    limits::{AccountState, Subject, nanos},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Most accounts of one script call. The server does nothing else while a script runs.
const BATCH: usize = 256;
/// How long further changes are collected before an exchange, so that they go out together.
const GATHER: Duration = Duration::from_millis(1);
/// How often accounts in use are exchanged even without changes here. It also tells the other gateways that this one is
/// alive.
const REFRESH: Duration = Duration::from_secs(1);
/// An account without requests for this long is no longer in use.
const IDLE: Duration = Duration::from_mins(2);
const RETRY: Duration = Duration::from_millis(500);
/// Longest time that [`check`] waits for an answer.
const CHECK: Duration = Duration::from_secs(1);

/// Checks whether limits can be shared through the server at `url`, for `gantry doctor`. Takes 2 s at most.
///
/// # Errors
/// The reason in one line, and `true` if the address itself is malformed.
pub async fn check(url: &str) -> Result<(), (String, bool)> {
    let mut server = redis::Shared::new(url, "doctor", CHECK).map_err(|error| (error.to_string(), true))?;
    server.check().await.map_err(|problem| (problem.to_string(), false))
}

/// Returns where the server at `url` is: its host and port, or the path of its socket.
///
/// # Errors
/// The address is malformed; the error does not repeat it.
pub fn address(url: &str) -> Result<(String, Option<u16>), String> {
    redis::address(url).map_err(|error| error.to_string())
}

/// Exchanges the state of limits with the other gateways through the server.
pub struct SharedLimits {
    server: redis::Shared,
    changes: mpsc::Receiver<Arc<AccountState>>,
    used: HashMap<Subject, (Arc<AccountState>, Instant)>,
}

impl SharedLimits {
    /// Makes the other end of the data plane's link. `instance` is the id of the database: gateways on the same one
    /// share their limits. An exchange that takes longer than `patience` has failed.
    ///
    /// # Errors
    /// The address is malformed. Whether the server is there does not matter yet.
    pub fn new(
        url: &str,
        instance: &str,
        patience: Duration,
        changes: mpsc::Receiver<Arc<AccountState>>,
    ) -> Result<Self, RedisError> {
        Ok(Self { server: redis::Shared::new(url, instance, patience)?, changes, used: HashMap::new() })
    }

    /// Runs until `stop`.
    pub async fn run(mut self, shared: Arc<Shared>, stop: CancellationToken) {
        let mut refreshed = None;
        loop {
            let due = refreshed.map_or(Duration::ZERO, |at: Instant| REFRESH.saturating_sub(at.elapsed()));
            let mut changed = Vec::new();
            tokio::select! {
                () = stop.cancelled() => break,
                n = self.changes.recv_many(&mut changed, BATCH) => if n == 0 { break },
                () = tokio::time::sleep(due) => {}
            }
            // The first exchange after an outage covers all accounts in use.
            let all = changed.is_empty() || refreshed.is_none();
            if !all {
                tokio::time::sleep(GATHER).await;
            }
            while (all || changed.len() < BATCH)
                && let Ok(state) = self.changes.try_recv()
            {
                changed.push(state);
            }
            for state in &changed {
                self.used.insert(state.subject(), (Arc::clone(state), Instant::now()));
            }
            if all {
                self.used.retain(|_, (state, at)| state.running() > 0 || at.elapsed() < IDLE);
                changed = self.used.values().map(|(state, _)| Arc::clone(state)).collect();
                refreshed = Some(Instant::now());
            }
            if self.exchange(&shared, &changed).await {
                continue;
            }
            // Everything is exchanged again as soon as it can be.
            refreshed = None;
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        self.server.leave().await;
    }

    /// Exchanges the state of these accounts. Returns whether it went well.
    async fn exchange(&mut self, shared: &Shared, states: &[Arc<AccountState>]) -> bool {
        let Some(link) = &shared.limiter.link else { return true };
        let counters = &shared.limiter.counters;
        // An exchange without accounts is a sign of life.
        let batches = states.chunks(BATCH).chain(states.is_empty().then_some(&[][..]));
        for batch in batches {
            let now = nanos(Instant::now());
            let reports: Vec<_> = batch.iter().map(|it| (it.subject().to_string(), it.report(now))).collect();
            match self.server.exchange(&reports).await {
                Ok((gateways, views)) => {
                    let now = nanos(Instant::now());
                    for (state, view) in batch.iter().zip(&views) {
                        state.apply(view, now);
                    }
                    counters.exchanges.fetch_add(1, Relaxed);
                    if link.exchanged(Some(gateways)) {
                        info!(gateways, "limits are shared with the other gateways");
                    }
                }
                Err(problem) => {
                    for (state, (_, report)) in batch.iter().zip(&reports) {
                        state.take_back(report);
                    }
                    counters.link_failures.fetch_add(1, Relaxed);
                    if link.exchanged(None) {
                        let gateways = link.gateways();
                        let problem = &problem as &dyn std::error::Error;
                        warn!(
                            problem,
                            gateways, "limits are not shared: this gateway goes on with its share of them"
                        );
                    }
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
