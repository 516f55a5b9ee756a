//! Starting and ending the data plane.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::watch,
};

use crate::{
    config::{Config, Other},
    connection::accept,
    record::spool,
    shared::Shared,
    thread_state::{ShutdownPhase, Spool, ThreadState},
};

/// Connections that the kernel completes ahead of `accept`.
const BACKLOG: i32 = 4096;

/// The running data plane. Dropping it cuts everything off at once; see [`DataPlane::drain`].
pub struct DataPlane {
    addr: SocketAddr,
    phase: watch::Sender<ShutdownPhase>,
    leave_grace: Duration,
    _lock: Arc<spool::Lock>,
}

impl fmt::Debug for DataPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataPlane").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl DataPlane {
    /// Takes the spool's lock, binds the sockets and starts the threads.
    ///
    /// # Errors
    /// The address is taken, or the spool directory can't be used (another gateway has it, it is not writable).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "they are shared with the threads; callers need not care"
    )]
    pub fn start(mut config: Config, shared: Arc<Shared>, other: Other) -> io::Result<Self> {
        let boot = gantry_domain::usage::id_at(shared.clock.now(), rand::random());
        let lock = Arc::new(spool::Lock::take(&config.spool_dir, boot)?);
        // One data plane has one `Shared`: nobody else has set it.
        let _ = shared.boot.set(boot);
        let inherited = !config.listeners.is_empty();
        let leave_grace = config.leave_grace;
        let listeners = listeners(&mut config)?;
        let first = listeners.first().ok_or(io::ErrorKind::InvalidInput)?;
        let addr = first.local_addr()?;
        let _ = shared.addr.set(addr);
        let (phase, phases) = watch::channel(ShutdownPhase::Run);
        let config = Arc::new(config);
        let all_closed = Arc::new(tokio::sync::Barrier::new(listeners.len()));
        for (listener, n) in listeners.into_iter().zip(0..) {
            let thread = Thread {
                n,
                boot,
                lock: Arc::clone(&lock),
                listener,
                inherited,
                all_closed: Arc::clone(&all_closed),
                config: Arc::clone(&config),
                shared: Arc::clone(&shared),
                other: Arc::clone(&other),
                phase: phases.clone(),
            };
            thread.start()?;
        }
        Ok(Self { addr, phase, leave_grace, _lock: lock })
    }

    /// The address it listens on, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends in order: `/readyz` fails at once, while everything is still served for [`Config::leave_grace`]; then
    /// running requests may take up to `timeout` to end, and new connections only get an answer that the gateway shuts
    /// down (or, on an inherited socket, are left to the program that accepts from it next); then what still runs is
    /// cut, see [`DataPlane::cut`]. Returns whether nothing had to be cut. The spool is complete when it returns. Needs
    /// a tokio runtime with time. May be dropped, to cut at once.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.phase.send_replace(ShutdownPhase::Leave);
        if !self.leave_grace.is_zero() {
            tokio::time::sleep(self.leave_grace).await;
        }
        self.phase.send_replace(ShutdownPhase::Drain);
        // Each thread holds a receiver until its last row is written.
        if tokio::time::timeout(timeout, self.phase.closed()).await.is_ok() {
            return true;
        }
        self.cut().await;
        false
    }

    /// Ends all requests now: streams get a final error event, others 503 `shutting_down`. The spool is complete when
    /// it returns.
    pub async fn cut(&self) {
        self.phase.send_replace(ShutdownPhase::Cut);
        self.phase.closed().await;
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.phase.send_replace(ShutdownPhase::Cut);
    }
}

struct Thread {
    n: u32,
    boot: uuid::Uuid,
    lock: Arc<spool::Lock>,
    listener: TcpListener,
    inherited: bool,
    all_closed: Arc<tokio::sync::Barrier>,
    config: Arc<Config>,
    shared: Arc<Shared>,
    other: Other,
    phase: watch::Receiver<ShutdownPhase>,
}

impl Thread {
    fn start(self) -> io::Result<()> {
        // The runtime can't leave its thread, so what can fail is reported back from there.
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        std::thread::Builder::new().name(format!("data-{}", self.n)).spawn(move || self.run(&tell))?;
        told.recv().unwrap_or_else(|_| Err(io::Error::other("a data-plane thread died at start")))
    }

    fn run(self, tell: &std::sync::mpsc::SyncSender<io::Result<()>>) {
        let built = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let ready = built.and_then(|runtime| {
            let inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            drop(inside);
            Ok((runtime, listener))
        });
        let (runtime, listener) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        let limits = spool::SegmentLimits {
            bytes: self.config.spool_segment_bytes,
            age: self.config.spool_segment_age,
            allocate: true,
        };
        let writer = spool::Writer::new(self.config.spool_dir.clone(), self.boot, self.n, limits);
        let spool = Spool { writer, lock: self.lock };
        let thread = Rc::new(ThreadState::new(self.config, self.shared, self.other, spool));
        let _ = tell.send(Ok(()));
        accept::run(runtime, &thread, listener, self.inherited, &self.all_closed, self.phase);
    }
}

/// Returns one socket for each thread: the ones handed in, shared if there are too few, or new ones on one port.
fn listeners(config: &mut Config) -> io::Result<Vec<TcpListener>> {
    let n = config.threads.max(1);
    let mut sockets = std::mem::take(&mut config.listeners);
    if sockets.is_empty() {
        let mut addr = config.listen;
        if addr.port() != 0 {
            // Another gateway may listen here, and would share its connections with us. Without `SO_REUSEPORT` the
            // kernel says so.
            drop(TcpListener::bind(addr)?);
        }
        for _ in 0..n {
            let socket = bind(addr)?;
            // With port 0 the first one decides for all.
            addr = socket.local_addr()?;
            sockets.push(socket);
        }
    }
    let given = sockets.len();
    for i in given..n {
        sockets.push(sockets[i % given].try_clone()?);
    }
    for socket in &sockets {
        socket.set_nonblocking(true)?;
    }
    Ok(sockets)
}

/// The kernel spreads connections over all sockets that are bound so (`SO_REUSEPORT`).
fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
