//! Connections to engines, kept by each thread for itself.
//!
//! A connection has no task: the request that uses it polls it along with what it waits for. So dropping a request
//! closes its connection at once, and nothing is handed from task to task on the way.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::Future,
    io,
    mem::MaybeUninit,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use gantry_connect::Stream;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    catalog::Catalog,
    upstream::{
        engine::Upstream,
        keeping::{After, Use},
    },
};

/// Most bytes that a connection buffers, and most bytes of the head of an answer.
const MAX_BUFFER: usize = 64 << 10;
/// Most connections to one engine that are kept only to see whether it closes them.
const ON_PROBATION: usize = 8;

/// Idle connections by [`Upstream::id`].
pub(crate) struct Pool {
    max_idle: Duration,
    idle: RefCell<HashMap<u64, Vec<Idle>>>,
}

struct Idle {
    link: Box<EngineConnection>,
    after: After,
    since: Instant,
    /// When it was seen open.
    seen: Instant,
}

impl Idle {
    /// Looks whether it is open, and has its engine's habits learned.
    fn look(&mut self, upstream: &Upstream, now: Instant, cx: &mut Context<'_>) -> bool {
        let usable = self.link.is_usable(cx);
        if usable {
            self.seen = now;
            upstream.keeping.lives(self.after, now.duration_since(self.since));
        } else {
            upstream.keeping.closed(self.after, self.seen.duration_since(self.since), now);
        }
        usable
    }
}

impl Pool {
    pub(crate) fn new(max_idle: Duration) -> Self {
        Self { max_idle, idle: RefCell::default() }
    }

    /// Returns the connection used last of those that may be used again and are still open.
    pub(crate) fn take(
        &self,
        upstream: &Upstream,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Option<Box<EngineConnection>> {
        let mut idle = self.idle.borrow_mut();
        let idle = idle.get_mut(&upstream.id)?;
        let mut at = idle.len();
        while at > 0 {
            at -= 1;
            let for_now = now.duration_since(idle[at].since);
            let judged = upstream.keeping.judge(idle[at].after, for_now, now);
            if for_now >= self.max_idle || judged == Use::Never {
                // All below it are older.
                idle.drain(..=at);
                return None;
            }
            if judged == Use::Later {
                continue;
            }
            let mut it = idle.remove(at);
            if it.look(upstream, now, cx) {
                it.link.sent.set(Sent::NothingOfThis);
                it.link.kept = Some((it.after, for_now));
                return Some(it.link);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to its end.
    pub(crate) fn put(&self, upstream: &Upstream, link: Box<EngineConnection>, after: After, now: Instant) {
        if link.closed {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let idle = idle.entry(upstream.id).or_default();
        let at_once = upstream.keeping.judge(after, Duration::ZERO, now) == Use::Now;
        if at_once || idle.len() < ON_PROBATION {
            idle.push(Idle { link, after, since: now, seen: now });
        }
    }

    /// Learns from idle connections whether their engines keep them. Closes those that were idle for too long, and those
    /// to engines that no route leads to.
    pub(crate) fn prune(&self, now: Instant, catalog: &Catalog) {
        let mut idle = self.idle.borrow_mut();
        if idle.is_empty() {
            return;
        }
        let upstreams = catalog.routes.values().flat_map(|it| it.target.upstreams());
        let live: HashMap<u64, &Upstream> = upstreams.map(|it| (it.id, &**it)).collect();
        // The next request polls its connection again, with its own waker.
        let mut cx = Context::from_waker(Waker::noop());
        idle.retain(|upstream, links| {
            let Some(upstream) = live.get(upstream) else { return false };
            links.retain_mut(|it| {
                let open = it.look(upstream, now, &mut cx);
                open && now.duration_since(it.since) < self.max_idle
            });
            !links.is_empty()
        });
    }
}

/// A connection to an engine.
pub(crate) struct EngineConnection {
    connection: Connection<TokioIo<Socket>, Full<Bytes>>,
    sender: SendRequest<Full<Bytes>>,
    closed: bool,
    /// The last answer before the present request, and how long ago it was; `None` on a new connection.
    kept: Option<(After, Duration)>,
    /// How much of the present request was written.
    sent: Rc<Cell<Sent>>,
}

/// How much of a request was written to its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Nothing, and the connection is new.
    Nothing,
    /// Nothing of this request; the connection was idle after another one.
    NothingOfThis,
    Something,
}

impl EngineConnection {
    /// # Errors
    /// What the operating system says, or which check of the engine's certificate failed.
    pub(crate) async fn connect(upstream: &Upstream) -> io::Result<Box<Self>> {
        let stream = upstream.connect().await?.into_inner();
        let sent = Rc::new(Cell::new(Sent::Nothing));
        let socket = Socket { stream, sent: Rc::clone(&sent) };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_BUFFER);
        let (sender, connection) = builder.handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
        Ok(Box::new(Self { connection, sender, closed: false, kept: None, sent }))
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

    /// Returns what the connection was used for before the present request, and how long it was idle then.
    pub(crate) fn kept(&self) -> Option<(After, Duration)> {
        self.kept
    }

    /// Returns whether the engine may have begun the present request: some of it was written. What the engine does with
    /// it can't be known once the connection has closed.
    pub(crate) fn may_have_begun(&self) -> bool {
        self.sent.get() == Sent::Something
    }
}

/// A socket that notes whether bytes go out, and that does not write if the engine has closed the connection.
struct Socket {
    stream: Stream,
    sent: Rc<Cell<Sent>>,
}

impl Socket {
    /// Checks the connection; must be called before a write. The runtime may not have seen yet that an idle connection
    /// was closed, and the kernel would take the bytes all the same: we would then not know whether the engine got the
    /// request, and could not safely send it again.
    ///
    /// # Errors
    /// It was closed, or bytes came that were not expected (under TLS, the announcement of the end).
    fn check(&self) -> io::Result<()> {
        if self.sent.get() != Sent::NothingOfThis {
            return Ok(());
        }
        match SockRef::from(self.stream.tcp()).peek(&mut [MaybeUninit::uninit()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(1..))) {
            self.sent.set(Sent::Something);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
