//! One data-plane thread: what it owns, its accept loop, its periodic work and how it ends.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    net::IpAddr,
    path::Path,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Waker,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use gantry_domain::{
    Timestamp,
    usage::{Outcome, id_at},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{
    net::TcpListener,
    runtime::LocalRuntime,
    sync::{Notify, watch},
};
use uuid::Uuid;

use crate::{
    config::{Config, Other},
    connection::{limit::Silent, serve},
    record::{
        access,
        refused::{RefusalQuota, RefusedRows},
        spans,
        spool::{RowRef, Writer},
        stats::ModelStats,
    },
    shared::Shared,
    upstream::pool::Pool,
};

/// Interval at which idle connections and the spool are checked; also the longest time until a row is announced.
const TICK: Duration = Duration::from_millis(500);
/// Number of rows that are announced at once, without waiting for the next tick.
const ANNOUNCE_ROWS: u32 = 256;
/// The spool's disk counts as almost full when less than both of these is free: this number of bytes, and this fraction
/// (1 / share) of the whole.
const RESERVE_BYTES: u64 = 256 << 20;
const RESERVE_SHARE: u64 = 20;
/// Time that connections have to end after they were cut.
const CUT_GRACE: Duration = Duration::from_secs(1);
/// Time that a connection without a request has to send one, when the gateway drains.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Run,
    /// `/readyz` reports "not ready". Requests are still served; each connection ends after its next answer.
    Leave,
    /// Connections end after the request that they work on, idle ones at once. New ones get 503.
    Drain,
    /// Requests end now.
    Cut,
}

/// Everything that requests on one thread share. Not `Send`: no atomics, no locks.
pub(crate) struct Worker {
    pub config: Arc<Config>,
    pub shared: Arc<Shared>,
    pub other: Other,
    pub access: access::Buffer,
    pub spans: spans::Buffer,
    pub pool: Pool,
    pub http: hyper::server::conn::http1::Builder,
    spool: RefCell<Writer>,
    refused: RefusedRows,
    rng: RefCell<SmallRng>,
    phase: Cell<Phase>,
    /// Whether connections that have brought no request are closed.
    silent_end: Cell<bool>,
    /// Wakers of the connection tasks, to notify them of a new phase.
    connections: RefCell<HashMap<u64, Waker>>,
    next_connection: Cell<u64>,
    pub silent: Silent,
    all_closed: Notify,
    unannounced: Cell<u32>,
}

impl Worker {
    pub(crate) fn new(config: Arc<Config>, shared: Arc<Shared>, other: Other, spool: Writer) -> Self {
        Self {
            pool: Pool::new(config.pool_idle),
            http: serve::builder(config.header_timeout),
            access: access::Buffer::new(config.access.clone()),
            spans: spans::Buffer::new(config.spans.clone()),
            config,
            shared,
            other,
            spool: RefCell::new(spool),
            refused: RefusedRows::default(),
            rng: RefCell::new(SmallRng::from_rng(&mut rand::rng())),
            phase: Cell::new(Phase::Run),
            silent_end: Cell::new(false),
            connections: RefCell::default(),
            next_connection: Cell::new(0),
            silent: Silent::default(),
            all_closed: Notify::new(),
            unannounced: Cell::new(0),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Returns whether connections that never brought a request have to end.
    pub(crate) fn ends_silent(&self) -> bool {
        self.silent_end.get()
    }

    pub(crate) fn random<const N: usize>(&self) -> [u64; N] {
        let mut rng = self.rng.borrow_mut();
        std::array::from_fn(|_| rng.next_u64())
    }

    pub(crate) fn new_id(&self, now: Timestamp) -> Uuid {
        let mut rng = self.rng.borrow_mut();
        id_at(now, u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()))
    }

    /// Records a request that is about to go to an engine.
    ///
    /// # Errors
    /// It must not go, because it could not be metered.
    pub(crate) fn record_intent(&self, row: &RowRef<'_>) -> io::Result<()> {
        let result = self.spool.borrow_mut().intent(row);
        if result.is_err() {
            self.shared.counters.spool_errors.fetch_add(1, Relaxed);
        }
        result
    }

    /// Records a request that has ended.
    pub(crate) fn record_final(&self, row: &RowRef<'_>) {
        if let Err(error) = self.spool.borrow_mut().finish(row) {
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
        bounds: &Arc<RefusalQuota>,
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
        counters.latency.record(latency);
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

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.wake_connections();
    }

    fn wake_connections(&self) {
        for waker in self.connections.borrow().values() {
            waker.wake_by_ref();
        }
    }

    async fn until_all_closed(&self) {
        while !self.connections.borrow().is_empty() {
            self.all_closed.notified().await;
        }
    }

    fn tick(&self) {
        let now = Instant::now();
        self.watch_disk();
        self.write_shared(now, false);
        self.access.tick();
        self.spans.flush();
        self.pool.prune(now, &self.shared.catalog.load());
        let closed = {
            let mut spool = self.spool.borrow_mut();
            if let Err(error) = spool.flush() {
                tracing::error!(%error, "usage rows can't be written");
            }
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
    fn close(&self) {
        self.write_shared(Instant::now(), true);
        self.access.tick();
        self.spans.flush();
        let closed = {
            let mut spool = self.spool.borrow_mut();
            if let Err(error) = spool.flush() {
                tracing::error!(%error, "usage rows are lost, because they can't be written");
            }
            spool.rotate(None);
            spool.take_closed()
        };
        sync(closed);
        self.unannounced.set(1);
        self.announce();
    }
}

fn sync(files: Vec<std::fs::File>) {
    for file in files {
        if let Err(error) = file.sync_data() {
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

/// Runs a thread until the phase ends it. `inherited`: another process goes on accepting on the same socket.
/// `all_closed`: barrier for threads whose connections have all ended.
pub(crate) fn run(
    runtime: LocalRuntime,
    worker: &Rc<Worker>,
    listener: TcpListener,
    inherited: bool,
    all_closed: &tokio::sync::Barrier,
    phase: watch::Receiver<Phase>,
) {
    runtime.block_on(serve(worker, listener, inherited, all_closed, phase.clone()));
    // This ends all tasks that still run; their guards write the rows.
    drop(runtime);
    worker.close();
    // This happens last: the code that waits for the end then finds all rows written.
    drop(phase);
}

async fn serve(
    worker: &Rc<Worker>,
    listener: TcpListener,
    inherited: bool,
    all_closed: &tokio::sync::Barrier,
    phase: watch::Receiver<Phase>,
) {
    let streams = Rc::clone(worker);
    serve::spawn(async move {
        let mut endings = streams.shared.endings();
        // An error means that the catalog is gone, and the gateway with it.
        while endings.changed().await.is_ok() {
            streams.wake_connections();
        }
    });
    let clockwork = Rc::clone(worker);
    serve::spawn(async move {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            clockwork.tick();
        }
    });
    accept(worker, &listener, Arrival::Early, reached(phase.clone(), Phase::Leave)).await;
    worker.enter(Phase::Leave);
    let drain = reached(phase.clone(), Phase::Drain);
    // In an inherited socket, connections that were not accepted wait for the next gateway.
    let listener = if inherited {
        drop(listener);
        drain.await;
        None
    } else {
        accept(worker, &listener, Arrival::Early, drain).await;
        // Connections whose handshake is done already are served once.
        while let Some(Ok((stream, addr))) = listener.accept().now_or_never() {
            serve::open(Rc::clone(worker), stream, addr, Arrival::Early);
        }
        Some(listener)
    };
    worker.enter(Phase::Drain);
    let closed = async {
        if tokio::time::timeout(FIRST_REQUEST_GRACE, worker.until_all_closed()).await.is_err() {
            worker.silent_end.set(true);
            worker.wake_connections();
            worker.until_all_closed().await;
        }
        // This thread waits for the others: a socket that closes resets the connections that came to it.
        all_closed.wait().await;
    };
    let ended = async {
        tokio::select! {
            () = closed => true,
            () = reached(phase, Phase::Cut) => false,
        }
    };
    let drained = match &listener {
        Some(listener) => accept(worker, listener, Arrival::Late, ended).await,
        None => ended.await,
    };
    drop(listener);
    if !drained {
        worker.enter(Phase::Cut);
        let _ = tokio::time::timeout(CUT_GRACE, worker.until_all_closed()).await;
    }
}

/// When a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Early,
    /// It came after the gateway began to drain: it only gets an error, and the drain does not wait for it.
    Late,
}

/// Accepts connections until `end`, and returns its result.
async fn accept<T>(
    worker: &Rc<Worker>,
    listener: &TcpListener,
    arrival: Arrival,
    end: impl Future<Output = T>,
) -> T {
    let mut end = std::pin::pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            ended = &mut end => return ended,
        };
        match accepted {
            Ok((stream, addr)) => serve::open(Rc::clone(worker), stream, addr, arrival),
            Err(error) => {
                // Out of file descriptors, most likely: without a pause this would spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn reached(mut phase: watch::Receiver<Phase>, wanted: Phase) {
    // An error means that the data plane is gone, which is as good as the last phase.
    let _ = phase.wait_for(|it| *it >= wanted).await;
}
