//! The accept loop of a data-plane thread, from its first connection to its last.

use std::{rc::Rc, time::Duration};

use futures_util::FutureExt;
use tokio::{net::TcpListener, runtime::LocalRuntime, sync::watch};

use crate::{
    connection::{serve, state::Arrival},
    thread_state::{ShutdownPhase, ThreadState},
};

/// Interval at which idle connections and the spool are checked; also the longest time until a row is announced.
const TICK: Duration = Duration::from_millis(500);
/// Time that connections have to end after they were cut.
const CUT_GRACE: Duration = Duration::from_secs(1);
/// Time that a connection without a request has to send one, when the gateway drains.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// Runs a thread until the phase ends it. `inherited`: another process goes on accepting on the same socket.
/// `all_closed`: barrier for threads whose connections have all ended.
pub(crate) fn run(
    runtime: LocalRuntime,
    thread: &Rc<ThreadState>,
    listener: TcpListener,
    inherited: bool,
    all_closed: &tokio::sync::Barrier,
    phase: watch::Receiver<ShutdownPhase>,
) {
    runtime.block_on(serve_until_end(thread, listener, inherited, all_closed, phase.clone()));
    // This ends all tasks that still run; their guards write the rows.
    drop(runtime);
    thread.close();
    // This happens last: the code that waits for the end then finds all rows written.
    drop(phase);
}

async fn serve_until_end(
    thread: &Rc<ThreadState>,
    listener: TcpListener,
    inherited: bool,
    all_closed: &tokio::sync::Barrier,
    phase: watch::Receiver<ShutdownPhase>,
) {
    wake_when_streams_end(Rc::clone(thread));
    tick(Rc::clone(thread));
    accept(thread, &listener, Arrival::Early, reached(phase.clone(), ShutdownPhase::Leave)).await;
    thread.enter(ShutdownPhase::Leave);
    let drain = reached(phase.clone(), ShutdownPhase::Drain);
    // In an inherited socket, connections that were not accepted wait for the next gateway.
    let listener = if inherited {
        drop(listener);
        drain.await;
        None
    } else {
        accept(thread, &listener, Arrival::Early, drain).await;
        // Connections whose handshake is done already are served once.
        while let Some(Ok((stream, addr))) = listener.accept().now_or_never() {
            serve::open(Rc::clone(thread), stream, addr, Arrival::Early);
        }
        Some(listener)
    };
    thread.enter(ShutdownPhase::Drain);
    let ended = async {
        tokio::select! {
            () = until_closed(thread, all_closed) => true,
            () = reached(phase, ShutdownPhase::Cut) => false,
        }
    };
    let drained = match &listener {
        Some(listener) => accept(thread, listener, Arrival::Late, ended).await,
        None => ended.await,
    };
    drop(listener);
    if !drained {
        thread.enter(ShutdownPhase::Cut);
        let _ = tokio::time::timeout(CUT_GRACE, thread.until_all_closed()).await;
    }
}

/// Wakes the thread's connections when streams have to check whether their callers were ended.
fn wake_when_streams_end(thread: Rc<ThreadState>) {
    serve::spawn(async move {
        let mut endings = thread.shared.endings();
        // An error means that the catalog is gone, and the gateway with it.
        while endings.changed().await.is_ok() {
            thread.wake_connections();
        }
    });
}

fn tick(thread: Rc<ThreadState>) {
    serve::spawn(async move {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            thread.tick();
        }
    });
}

/// Waits until the connections of all threads have ended; those that bring no request are ended after a while.
async fn until_closed(thread: &ThreadState, all_closed: &tokio::sync::Barrier) {
    if tokio::time::timeout(FIRST_REQUEST_GRACE, thread.until_all_closed()).await.is_err() {
        thread.end_silent();
        thread.until_all_closed().await;
    }
    // This thread waits for the others: a socket that closes resets the connections that came to it.
    all_closed.wait().await;
}

/// Accepts connections until `end`, and returns its result.
async fn accept<T>(
    thread: &Rc<ThreadState>,
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
            Ok((stream, addr)) => {
                serve::open(Rc::clone(thread), stream, addr, arrival);
                if thread.shared.connections.are_full(thread.config.max_connections) {
                    // The connection that makes room for this one must be closed before the next one is accepted.
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                // Out of file descriptors, most likely: without a pause this would spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn reached(mut phase: watch::Receiver<ShutdownPhase>, wanted: ShutdownPhase) {
    // An error means that the data plane is gone, which is as good as the last phase.
    let _ = phase.wait_for(|it| *it >= wanted).await;
}
