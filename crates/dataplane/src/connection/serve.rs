//! One client connection: a task that drives hyper, and that is woken when the thread is to end.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    task::{Poll, Waker},
    time::Duration,
};

use http::Request;
use hyper::{
    body::{Body, Incoming},
    server::conn::http1::Builder,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::{
    config::Peer,
    connection::{hyper_errors::HyperErrors, limit},
    request::dispatch,
    thread::{Arrival, Phase, Worker},
};

/// Most bytes of a request head, and most bytes that a connection buffers.
const MAX_BUFFER: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

pub(crate) fn builder(header_timeout: Duration) -> Builder {
    let mut http = Builder::new();
    http.half_close(false)
        .keep_alive(true)
        .max_buf_size(MAX_BUFFER)
        .max_headers(MAX_HEADERS)
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    http
}

/// Starts a task on this thread. It ends with the thread's runtime at the latest, after connections were drained.
pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    drop(tokio::task::spawn_local(task));
}

/// How a connection behaves.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub address: IpAddr,
    asked: Cell<bool>,
    /// Its last request had a body.
    sends: Cell<bool>,
    /// It is to be closed, to make room for another one.
    ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionState {
    /// Whether it has brought a request.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked.get()
    }

    /// Whether its last request had a body, of which some may be under way.
    pub(crate) fn may_be_sending(&self) -> bool {
        self.sends.get()
    }

    pub(crate) fn end(&self) {
        self.ended.set(true);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// Serves a connection in the background, if there is room for it.
pub(crate) fn open(worker: Rc<Worker>, stream: TcpStream, addr: SocketAddr, arrival: Arrival) {
    // Answers are written whole; without this the last piece of a stream would wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    let Some(place) = limit::admit(&worker, addr.ip()) else {
        tracing::debug!(%addr, "a connection is refused: there are too many");
        return;
    };
    spawn(async move {
        let _place = place;
        serve(worker, stream, addr, arrival).await;
    });
}

async fn serve(worker: Rc<Worker>, stream: TcpStream, addr: SocketAddr, arrival: Arrival) {
    let inner = Rc::clone(&worker);
    let state = Rc::new(ConnectionState {
        address: addr.ip(),
        asked: Cell::default(),
        sends: Cell::default(),
        ended: Cell::default(),
        waker: RefCell::default(),
    });
    let asks = Rc::clone(&state);
    let service = service_fn(move |request: Request<Incoming>| {
        asks.asked.set(true);
        asks.sends.set(!request.body().is_end_stream());
        dispatch::handle(&inner, request, Peer { addr }, arrival)
    });
    let stream = HyperErrors::new(stream, Rc::clone(&worker), Rc::clone(&state));
    let mut http = std::pin::pin!(worker.http.serve_connection(TokioIo::new(stream), service));
    let mut guard = None;
    let mut told = false;
    let ended = std::future::poll_fn(|cx| {
        if arrival == Arrival::Early {
            guard.get_or_insert_with(|| {
                *state.waker.borrow_mut() = Some(cx.waker().clone());
                worker.silent.came(&state);
                OpenConnection::new(Rc::clone(&worker), cx.waker().clone())
            });
        }
        // First, so that a request that has arrived already is seen before idle connections are closed.
        let polled = http.as_mut().poll(cx);
        if polled.is_pending() && state.ended.get() && !state.has_asked() {
            return Poll::Ready(Ok(()));
        }
        // A connection that has brought no request yet may have one on its way; hyper would close the connection.
        let ends = worker.phase() >= Phase::Drain && (state.has_asked() || worker.ends_silent());
        if polled.is_pending() && ends && !told {
            told = true;
            http.as_mut().graceful_shutdown();
            return http.as_mut().poll(cx);
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
    worker: Rc<Worker>,
    id: u64,
}

impl OpenConnection {
    fn new(worker: Rc<Worker>, waker: Waker) -> Self {
        let id = worker.connection_opened(waker);
        Self { worker, id }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.worker.connection_closed(self.id);
    }
}
