//! What a data-plane thread owns: settings, connections, the spool, logs and counters, and how far it is from its end.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    net::IpAddr,
    path::Path,
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, Release},
    },
    task::Waker,
    time::{Duration, Instant},
};

use gantry_domain::usage::Outcome;
use http::HeaderMap;
use tokio::sync::Notify;

use crate::{
    config::{Config, Other},
    connection::settings,
    limits::Refusals,
    random::Random,
    record::{
        access,
        refused_rows::RefusedRows,
        spans,
        spool::{Closed, Lock, RowRef, Writer},
        stats::ModelStats,
        trace::Trace,
    },
    shared::Shared,
    upstream::pool::Pool,
};

/// Number of rows that are announced at once, without waiting for the next tick.
const ANNOUNCE_ROWS: u32 = 256;
/// The spool's disk counts as almost full when less than both of these is free: this number of bytes, and this fraction
/// (1 / share) of the whole.
const RESERVE_BYTES: u64 = 256 << 20;
const RESERVE_SHARE: u64 = 20;

/// How far the gateway is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShutdownPhase {
    Run,
    /// `/readyz` reports "not ready". Requests are still served; each connection ends after its next answer.
    Leave,
    /// Connections end after the request that they work on, idle ones at once. New ones get 503.
    Drain,
    /// Requests end now.
    Cut,
}

/// What a thread writes its usage rows with.
pub(crate) struct Spool {
    pub writer: Writer,
    pub lock: Arc<Lock>,
}

/// Everything that requests on one thread share. Not `Send`: no atomics, no locks.
pub(crate) struct ThreadState {
    pub config: Arc<Config>,
    pub shared: Arc<Shared>,
    pub other: Other,
    pub access: access::LineBuffer,
    pub spans: spans::SpanBuffer,
    pub pool: Pool,
    pub http: hyper::server::conn::http1::Builder,
    pub random: Random,
    spool: RefCell<Writer>,
    lock: Arc<Lock>,
    /// Whether somebody removed or took files of the spool and they can't be put back: nothing can be metered.
    spool_away: Cell<bool>,
    refused: RefusedRows,
    phase: Cell<ShutdownPhase>,
    /// Whether connections that have brought no request are closed.
    silent_end: Cell<bool>,
    /// Wakers of the connection tasks, to notify them of a new phase.
    connections: RefCell<HashMap<u64, Waker>>,
    next_connection: Cell<u64>,
    all_closed: Notify,
    unannounced: Cell<u32>,
}

impl ThreadState {
    pub(crate) fn new(config: Arc<Config>, shared: Arc<Shared>, other: Other, spool: Spool) -> Self {
        let Spool { writer, lock } = spool;
        Self {
            pool: Pool::new(config.pool_idle),
            http: settings::builder(),
            access: access::LineBuffer::new(config.access.clone()),
            spans: spans::SpanBuffer::new(config.spans.clone()),
            config,
            shared,
            other,
            random: Random::new(),
            spool: RefCell::new(writer),
            lock,
            spool_away: Cell::new(false),
            refused: RefusedRows::default(),
            phase: Cell::new(ShutdownPhase::Run),
            silent_end: Cell::new(false),
            connections: RefCell::default(),
            next_connection: Cell::new(0),
            all_closed: Notify::new(),
            unannounced: Cell::new(0),
        }
    }

    pub(crate) fn phase(&self) -> ShutdownPhase {
        self.phase.get()
    }

    /// Returns whether connections that never brought a request have to end.
    pub(crate) fn ends_silent(&self) -> bool {
        self.silent_end.get()
    }

    /// Ends connections that have brought no request, too.
    pub(crate) fn end_silent(&self) {
        self.silent_end.set(true);
        self.wake_connections();
    }

    /// Takes the trace context of a request, or begins one.
    pub(crate) fn trace(&self, headers: &HeaderMap) -> Trace {
        Trace::new(headers, self.spans.sampler(), self.config.trace_sampled, &self.random)
    }

    /// Records a request that is about to go to an engine.
    ///
    /// # Errors
    /// It must not go, because it could not be metered.
    pub(crate) fn record_intent(&self, row: &RowRef<'_>) -> io::Result<()> {
        let mut spool = self.spool.borrow_mut();
        let result = if self.spool_away.get() {
            Err(io::Error::other("files of the usage spool were removed or taken"))
        } else {
            spool.intent(row)
        };
        self.count_written(&mut spool);
        drop(spool);
        if result.is_err() {
            self.shared.counters.spool_errors.fetch_add(1, Relaxed);
        }
        result
    }

    /// Records a request that has ended.
    pub(crate) fn record_final(&self, row: &RowRef<'_>) {
        let mut spool = self.spool.borrow_mut();
        let result = spool.finish(row);
        self.count_written(&mut spool);
        drop(spool);
        if let Err(error) = result {
            self.shared.counters.spool_errors.fetch_add(1, Relaxed);
            tracing::error!(%error, id = %row.id, "a usage row could not be written; it is kept in memory");
            return;
        }
        self.unannounced.set(self.unannounced.get() + 1);
        if self.unannounced.get() >= ANNOUNCE_ROWS {
            self.announce();
        }
    }

    /// Records a request that was refused, within the bounds of its caller. Returns whether it has a row of its own.
    pub(crate) fn record_refused(
        &self,
        bounds: &Refusals,
        row: &RowRef<'_>,
        known: bool,
        client: IpAddr,
        now: Instant,
    ) -> bool {
        let own = self.refused.passes(bounds, row, known, client, now);
        if own {
            self.write_refused(row);
        }
        own
    }

    fn write_refused(&self, row: &RowRef<'_>) {
        if self.shared.disk_low.load(Relaxed) {
            self.shared.counters.refusals_dropped.fetch_add(row.requests.unsigned_abs(), Relaxed);
        } else {
            self.record_final(row);
        }
    }

    /// Writes the shared rows of refusals that may be written now.
    fn write_shared(&self, now: Instant, end: bool) {
        self.refused.write(now, end, |row, client| {
            self.write_refused(row);
            self.access.write(&access::Line::of_row(row, client));
        });
    }

    /// Counts rows once they can be read: the shipper compares the number with what it has read.
    fn count_written(&self, spool: &mut Writer) {
        let n = spool.take_written();
        if n > 0 {
            self.shared.counters.spool_written.fetch_add(n, Release);
        }
    }

    /// Puts files of the spool back that somebody removed, moved or replaced. While that can't be done nothing is served.
    fn watch_spool(&self) {
        let lock = self.lock.keep();
        let kept = lock.and_then(|lock| Ok(self.spool.borrow_mut().keep()? || lock));
        let away = kept.is_err();
        let was = self.spool_away.replace(away);
        match kept {
            Err(error) if !was => {
                self.shared.counters.spool_away.fetch_add(1, Relaxed);
                tracing::error!(%error, "files of the usage spool were removed or taken, and can't be put back: nothing is served");
            }
            Ok(restored) => {
                if was {
                    self.shared.counters.spool_away.fetch_sub(1, Relaxed);
                }
                if was || restored {
                    tracing::warn!("somebody removed or replaced files of the usage spool; they are back");
                }
            }
            Err(_) => {}
        }
    }

    fn watch_disk(&self) {
        let low = is_almost_full(&self.config.spool_dir);
        if low != self.shared.disk_low.swap(low, Relaxed) {
            if low {
                tracing::warn!(
                    "the disk of the usage spool is almost full: refused requests get no usage rows"
                );
            } else {
                tracing::info!("the disk of the usage spool has room again");
            }
        }
    }

    /// Counts a request that ended.
    pub(crate) fn count(
        &self,
        stats: &ModelStats,
        outcome: Outcome,
        row: &RowRef<'_>,
        latency: Duration,
        ttft: Option<Duration>,
    ) {
        let counters = &self.shared.counters;
        counters.requests[outcome as usize].fetch_add(1, Relaxed);
        // A refused request waits for no engine: many of them would hide how long the others take.
        if !outcome.is_refused() {
            counters.latency.record(latency);
        }
        counters.prompt_tokens.fetch_add(row.prompt_tokens as u64, Relaxed);
        counters.completion_tokens.fetch_add(row.completion_tokens as u64, Relaxed);
        counters.estimated.fetch_add(u64::from(row.estimated), Relaxed);
        if let Some(ttft) = ttft {
            counters.ttft.record(ttft);
            stats.ttft.record(ttft);
        }
        stats.count(row.endpoint, row.status_code);
        stats.latency.record(latency);
        stats.prompt_tokens.fetch_add(row.prompt_tokens as u64, Relaxed);
        stats.cached_tokens.fetch_add(row.cached_tokens.unwrap_or(0) as u64, Relaxed);
        stats.completion_tokens.fetch_add(row.completion_tokens as u64, Relaxed);
    }

    fn announce(&self) {
        if self.unannounced.replace(0) > 0 {
            self.shared.usage_written.notify_one();
        }
    }

    pub(crate) fn connection_opened(&self, waker: Waker) -> u64 {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        self.connections.borrow_mut().insert(id, waker);
        self.shared.counters.connections.fetch_add(1, Relaxed);
        self.shared.counters.connections_open.fetch_add(1, Relaxed);
        id
    }

    pub(crate) fn connection_closed(&self, id: u64) {
        self.shared.counters.connections_open.fetch_sub(1, Relaxed);
        let mut connections = self.connections.borrow_mut();
        connections.remove(&id);
        if connections.is_empty() {
            self.all_closed.notify_one();
        }
    }

    /// Begins a phase, and wakes all connections to see it.
    pub(crate) fn enter(&self, phase: ShutdownPhase) {
        self.phase.set(phase);
        self.wake_connections();
    }

    pub(crate) fn wake_connections(&self) {
        for waker in self.connections.borrow().values() {
            waker.wake_by_ref();
        }
    }

    pub(crate) async fn until_all_closed(&self) {
        while !self.connections.borrow().is_empty() {
            self.all_closed.notified().await;
        }
    }

    /// Does the periodic work: rows, log lines and spans go out, idle connections are closed.
    pub(crate) fn tick(&self) {
        let now = Instant::now();
        self.watch_disk();
        self.watch_spool();
        self.write_shared(now, false);
        self.access.tick();
        self.spans.flush();
        self.pool.prune(now, &self.shared.catalog.load());
        let closed = {
            let mut spool = self.spool.borrow_mut();
            if let Err(error) = spool.flush() {
                tracing::error!(%error, "usage rows can't be written");
            }
            self.count_written(&mut spool);
            spool.rotate(Some(now));
            spool.take_closed()
        };
        if !closed.is_empty() {
            // Syncing may take long; the rows are in the page cache already.
            drop(tokio::task::spawn_blocking(move || sync(closed)));
        }
        self.announce();
    }

    /// Writes everything that is left; it is the last thing that happens on a thread.
    pub(crate) fn close(&self) {
        self.write_shared(Instant::now(), true);
        self.access.tick();
        self.spans.flush();
        self.watch_spool();
        let closed = {
            let mut spool = self.spool.borrow_mut();
            if let Err(error) = spool.flush() {
                tracing::error!(%error, "usage rows are lost, because they can't be written");
            }
            self.count_written(&mut spool);
            spool.rotate(None);
            spool.take_closed()
        };
        sync(closed);
        self.unannounced.set(1);
        self.announce();
    }
}

fn sync(segments: Vec<Closed>) {
    for segment in segments {
        if let Err(error) = segment.sync() {
            tracing::warn!(%error, "a closed spool segment could not be synced");
        }
    }
}

/// Returns whether a disk has so little room left that it has to be kept for requests that are served; `false` if that
/// is not known.
fn is_almost_full(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|disk| {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        free < RESERVE_BYTES && disk.f_bavail < disk.f_blocks / RESERVE_SHARE
    })
}
