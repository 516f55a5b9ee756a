//! Counters of the whole data plane, for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gantry_domain::usage::Outcome;

use crate::record::stats::Fine;

/// Why a request was sent once more. In each case the engine can't have begun it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No connection could be made.
    Unreachable,
    /// The connection closed before anything of the request was written.
    Closed,
    /// The engine could not be reached, and another one of the route got it.
    Elsewhere,
}

impl Retry {
    pub const ALL: [Self; 3] = [Self::Unreachable, Self::Closed, Self::Elsewhere];

    /// The label of its metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Closed => "closed",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// Counters since start, for Prometheus. Gauges are marked as such.
#[derive(Debug, Default)]
pub struct Counters {
    /// Client connections accepted.
    pub connections: AtomicU64,
    /// Gauge: client connections open.
    pub connections_open: AtomicU64,
    /// Connections that were closed at once, because the limit of all connections was reached.
    pub connections_refused_full: AtomicU64,
    /// Connections that were closed at once, because the limit of their address was reached.
    pub connections_refused_address: AtomicU64,
    /// Connections that had brought no request and made room for others.
    pub connections_displaced: AtomicU64,
    /// Inference requests that passed authentication, by [`Outcome`] in the order of [`Outcome::ALL`].
    pub requests: [AtomicU64; Outcome::ALL.len()],
    /// Inference requests refused before they had a usage row (401 and 403).
    pub refused: AtomicU64,
    /// Gauge: inference requests that passed authentication and have not ended.
    pub in_flight: AtomicU64,
    /// Gauge: requests in flight whose answer is streaming.
    pub streams: AtomicU64,
    /// Tokens of all rows.
    pub prompt_tokens: AtomicU64,
    pub completion_tokens: AtomicU64,
    /// Rows whose counts the gateway estimated.
    pub estimated: AtomicU64,
    /// Connections made to engines.
    pub upstream_connects: AtomicU64,
    /// Requests sent once more, by [`Retry`] in the order of [`Retry::ALL`].
    pub upstream_retries: [AtomicU64; Retry::ALL.len()],
    /// Records that could not be written to the spool at first.
    pub spool_errors: AtomicU64,
    /// Usage rows of requests that ended that were written to the spool.
    pub spool_written: AtomicU64,
    /// Gauge: rows that were written to the spool and are neither in the database nor in the spool.
    pub spool_missing: AtomicU64,
    /// Gauge: threads that can't write, because files of the spool were removed or taken and can't be put back.
    pub spool_away: AtomicU64,
    /// Refused requests that have no row, because the disk of the spool is almost full.
    pub refusals_dropped: AtomicU64,
    /// Usage rows that the shipper brought to the database.
    pub usage_shipped: AtomicU64,
    /// Batches of rows that the database did not take.
    pub usage_failures: AtomicU64,
    /// Shipped rows that the database had already.
    pub usage_replayed: AtomicU64,
    /// Damaged places in the spool.
    pub spool_torn: AtomicU64,
    /// Gauge: bytes of the spool that are not in the database yet.
    pub spool_backlog_bytes: AtomicU64,
    /// Panics caught in request handlers.
    pub panics: AtomicU64,
    /// Time of whole requests.
    pub latency: Fine,
    /// Time to the first byte of streamed answers.
    pub ttft: Fine,
}

impl Counters {
    /// Returns the number of all inference requests that ended with a row.
    pub fn requests_total(&self) -> u64 {
        self.requests.iter().map(|it| it.load(Relaxed)).sum()
    }

    /// Returns the number of requests that ended with `outcome`.
    pub fn requests_with(&self, outcome: Outcome) -> u64 {
        self.requests[outcome as usize].load(Relaxed)
    }
}
