//! One client connection: a task that drives hyper, and that is woken when the thread is to end.

use std::{
    future::Future,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
};

use futures_util::TryFutureExt;
use http::Request;
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{
    config::Peer,
    connection::{
        hyper_errors::HyperErrors,
        limit::{self, ConnectionPlace},
        patience::{Limits, Patience, Turn, TurnAnswer},
        state::Arrival,
    },
    request::dispatch,
    thread_state::{ShutdownPhase, ThreadState},
};

/// Starts a task on this thread. It ends with the thread's runtime at the latest, after connections were drained.
pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    drop(tokio::task::spawn_local(task));
}

/// Serves a connection in the background, if there is room for it.
pub(crate) fn open(thread: Rc<ThreadState>, stream: TcpStream, addr: SocketAddr, arrival: Arrival) {
    // Answers are written whole; without this the last piece of a stream would wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    let Some(place) = limit::admit(&thread, addr.ip(), arrival) else {
        tracing::debug!(%addr, "a connection is refused: there are too many");
        return;
    };
    spawn(serve(thread, stream, addr, arrival, place));
}

async fn serve(
    thread: Rc<ThreadState>,
    stream: TcpStream,
    addr: SocketAddr,
    arrival: Arrival,
    place: ConnectionPlace,
) {
    let inner = Rc::clone(&thread);
    let place = Rc::new(place);
    let state = Arc::clone(&place.state);
    let turn = Rc::new(Turn::new());
    let asked = Rc::clone(&turn);
    let service = service_fn(move |request: Request<Incoming>| {
        place.asks(!request.body().is_end_stream());
        let answering = Rc::clone(&asked).answer();
        dispatch::handle(&inner, request, Peer { addr }, arrival)
            .map_ok(|it| it.map(|answer| TurnAnswer { answer, _answering: answering }))
    });
    let stream = HyperErrors::new(stream, Rc::clone(&thread), Rc::clone(&turn), Arc::clone(&state));
    let mut http = std::pin::pin!(thread.http.serve_connection(TokioIo::new(stream), service));
    let limits = Limits { head: thread.config.header_timeout, idle: thread.config.idle_timeout };
    let mut patience = Patience::new(limits);
    let is_crowded = || thread.shared.connections.are_full(thread.config.max_connections / 2);
    let mut guard = None;
    let mut is_ending = false;
    let ended = std::future::poll_fn(|cx| {
        if arrival == Arrival::Early {
            guard.get_or_insert_with(|| {
                state.set_waker(cx.waker());
                OpenConnection::new(Rc::clone(&thread), cx.waker().clone())
            });
        }
        // First, so that a request that has arrived already is seen before idle connections are closed.
        let polled = http.as_mut().poll(cx);
        if polled.is_pending() && state.is_to_end() && !state.has_asked() {
            return Poll::Ready(Ok(()));
        }
        // A connection that has brought no request yet may have one on its way; hyper would close the connection.
        let ends = thread.phase() >= ShutdownPhase::Drain && (state.has_asked() || thread.ends_silent());
        if polled.is_pending() && ends && !is_ending {
            is_ending = true;
            http.as_mut().graceful_shutdown();
            return http.as_mut().poll(cx);
        }
        if polled.is_pending() && patience.is_over(&turn, is_crowded, cx) {
            return Poll::Ready(Ok(()));
        }
        polled
    });
    if let Err(error) = ended.await {
        // The client left, sent no HTTP or was too slow; the request's own log line says what became of it.
        tracing::debug!(%error, %addr, "a connection ended early");
    }
}

/// Counts the connection while its task lives.
struct OpenConnection {
    thread: Rc<ThreadState>,
    id: u64,
}

impl OpenConnection {
    fn new(thread: Rc<ThreadState>, waker: Waker) -> Self {
        let id = thread.connection_opened(waker);
        Self { thread, id }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.thread.connection_closed(self.id);
    }
}
