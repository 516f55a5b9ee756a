//! Connections to engines, kept by each thread for itself.
//!
//! A connection has no task: whoever uses it polls it along with what it waits for. So dropping a request closes its
//! connection at once, and nothing is handed from task to task on the way.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{Catalog, RouteTarget, Upstream};

/// Bytes that a connection buffers at most, and that the head of an answer may have.
const MAX_BUFFER: usize = 64 << 10;

/// Idle connections by [`Upstream::id`].
pub(crate) struct Pool {
    max_idle: Duration,
    idle: RefCell<HashMap<u64, Vec<Idle>>>,
}

struct Idle {
    link: Box<Link>,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(max_idle: Duration) -> Self {
        Self { max_idle, idle: RefCell::default() }
    }

    /// The connection used last, if it is usable still.
    pub(crate) fn take(&self, upstream: u64, now: Instant, cx: &mut Context<'_>) -> Option<Box<Link>> {
        let mut idle = self.idle.borrow_mut();
        let idle = idle.get_mut(&upstream)?;
        while let Some(mut it) = idle.pop() {
            if now.duration_since(it.since) >= self.max_idle {
                // All below it are older.
                idle.clear();
                return None;
            }
            if it.link.is_usable(cx) {
                it.link.reused = true;
                it.link.received.set(false);
                return Some(it.link);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to its end.
    pub(crate) fn put(&self, upstream: u64, link: Box<Link>, now: Instant) {
        if !link.closed {
            self.idle.borrow_mut().entry(upstream).or_default().push(Idle { link, since: now });
        }
    }

    /// Closes what was idle for too long, and what belongs to engines that no route leads to.
    pub(crate) fn prune(&self, now: Instant, catalog: &Catalog) {
        let mut idle = self.idle.borrow_mut();
        if idle.is_empty() {
            return;
        }
        let live: HashSet<u64> = catalog
            .routes
            .values()
            .filter_map(|route| match &route.target {
                RouteTarget::Up(upstream) => Some(upstream.id),
                RouteTarget::Returning { .. } | RouteTarget::Elsewhere | RouteTarget::Down { .. } => None,
            })
            .collect();
        idle.retain(|upstream, links| {
            links.retain(|it| now.duration_since(it.since) < self.max_idle);
            live.contains(upstream) && !links.is_empty()
        });
    }
}

/// A connection to an engine.
pub(crate) struct Link {
    connection: Connection<TokioIo<Socket>, Full<Bytes>>,
    sender: SendRequest<Full<Bytes>>,
    closed: bool,
    /// It served another request before.
    reused: bool,
    /// Bytes of the answer to the present request have come.
    received: Rc<Cell<bool>>,
}

impl Link {
    /// # Errors
    /// What the operating system says.
    pub(crate) async fn connect(upstream: &Upstream) -> io::Result<Box<Self>> {
        let stream = TcpStream::connect(upstream.authority()).await?;
        stream.set_nodelay(true)?;
        let received = Rc::new(Cell::new(false));
        let socket = Socket { stream, received: Rc::clone(&received) };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_BUFFER);
        let (sender, connection) = builder.handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        Ok(Box::new(Self { connection, sender, closed: false, reused: false, received }))
    }

    /// Moves bytes both ways. An error of the connection comes out of what waits on it.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.closed && Pin::new(&mut self.connection).poll(cx).is_ready() {
            self.closed = true;
        }
    }

    fn is_usable(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        !self.closed && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut answer = std::pin::pin!(self.sender.send_request(request));
        std::future::poll_fn(|cx| {
            if !self.closed && Pin::new(&mut self.connection).poll(cx).is_ready() {
                self.closed = true;
            }
            // Only the connection can make it ready, and that is polled right before: no waker is needed.
            answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        })
        .await
    }

    /// Whether the request may be sent again: the engine closed an idle connection just when it was used.
    pub(crate) fn was_stale(&self) -> bool {
        self.reused && !self.received.get()
    }
}

/// Sees whether bytes came in.
struct Socket {
    stream: TcpStream,
    received: Rc<Cell<bool>>,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.received.set(true);
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
