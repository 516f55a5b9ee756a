//! Limits that several gateways share, through Redis or Valkey. Requests are decided by the data plane on what it knows
//! (see [`gantry_dataplane::limits`]); this task exchanges that with the other gateways: soon after each change, and each
//! second for accounts in use. While the server is away or slow, the data plane goes on with its share of each limit.

mod redis;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use ::redis::RedisError;
use gantry_dataplane::{
    Shared,
    limits::{AccountState, Holder, nanos},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Accounts of one script call; the server does nothing else meanwhile.
const BATCH: usize = 256;
/// So that changes that come together go together.
const GATHER: Duration = Duration::from_millis(1);
/// How often accounts in use are looked at though nothing happened here, and the others hear that we are alive.
const REFRESH: Duration = Duration::from_secs(1);
/// Without requests for so long, an account is not in use.
const IDLE: Duration = Duration::from_mins(2);
const RETRY: Duration = Duration::from_millis(500);
/// How long [`look`] waits for an answer.
const LOOK: Duration = Duration::from_secs(1);

/// Whether limits can be shared through the server at `url`; for `gantry doctor`. Takes 2 s at most.
///
/// # Errors
/// Why not, in one line; `true` with it if the address itself is malformed.
pub async fn look(url: &str) -> Result<(), (String, bool)> {
    let mut server = redis::Shared::new(url, "doctor", LOOK).map_err(|error| (error.to_string(), true))?;
    server.look().await.map_err(|problem| (problem.to_string(), false))
}

/// See [`Share::new`].
pub struct Share {
    server: redis::Shared,
    changes: mpsc::Receiver<Arc<AccountState>>,
    used: HashMap<Holder, (Arc<AccountState>, Instant)>,
}

impl Share {
    /// The other end of the data plane's link. `instance` is the id of the database: gateways on the same one share their
    /// limits. An exchange that takes longer than `patience` has failed.
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
            // The first exchange after an outage is one of all that happened meanwhile.
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
                self.used.insert(state.holder(), (Arc::clone(state), Instant::now()));
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

    /// Whether it went well.
    async fn exchange(&mut self, shared: &Shared, states: &[Arc<AccountState>]) -> bool {
        let Some(link) = &shared.limiter.link else { return true };
        let counters = &shared.limiter.counters;
        // Without an account it is a sign of life.
        let batches = states.chunks(BATCH).chain(states.is_empty().then_some(&[][..]));
        for batch in batches {
            let now = nanos(Instant::now());
            let reports: Vec<_> = batch.iter().map(|it| (it.holder().to_string(), it.report(now))).collect();
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
