//! Brings a request to an engine, up to the head of its answer.

use std::{
    future::poll_fn,
    io,
    sync::atomic::Ordering::Relaxed,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use rustix::io::Errno;

use crate::{
    config::Config,
    record::{
        counters::Retry,
        meter::Origin,
        trace::{TRACEPARENT, TRACESTATE, Trace},
    },
    request::deadline::{Deadline, Over},
    response::headers::X_REQUEST_ID,
    thread_state::ThreadState,
    upstream::{engine::Upstream, pool::EngineConnection, unusable::Unusable},
};

/// Longest `Via` of a client, in bytes, that is passed on.
const MAX_VIA: usize = 1024;
const ANTHROPIC: [&str; 2] = ["anthropic-version", "anthropic-beta"];
const BETA: &str = "beta=true";

/// Headers that an engine gets: a few of the client's, and the gateway's own. Cookies, keys and addresses are not
/// passed on.
pub(crate) struct EngineHeaders {
    accept: Option<HeaderValue>,
    /// The version of Anthropic's API that the client speaks, and the betas that it uses; only its endpoints get them.
    anthropic: [Option<HeaderValue>; 2],
    /// Whether the client asked with `?beta=true`, as Anthropic's clients do.
    beta: bool,
    trace: Trace,
    request_id: HeaderValue,
    via: HeaderValue,
}

impl EngineHeaders {
    /// `client` are the headers that came, `query` came with the path, `own` is the `Via` of this gateway.
    pub(crate) fn new(
        client: &mut HeaderMap,
        query: Option<&str>,
        origin: &Origin,
        own: &HeaderValue,
    ) -> Self {
        let via = client.get(header::VIA).and_then(|came| chained(came, own)).unwrap_or_else(|| own.clone());
        Self {
            accept: client.remove(header::ACCEPT),
            anthropic: ANTHROPIC.map(|name| client.remove(name)),
            beta: query.is_some_and(|it| it.split('&').any(|it| it == BETA)),
            trace: origin.trace.clone(),
            request_id: origin.request_id.clone(),
            via,
        }
    }

    fn request(&self, upstream: &Upstream, endpoint: Endpoint, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri(upstream, endpoint);
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(header::HOST, upstream.host().clone());
        // The client's own value is not needed: it stood for JSON too, or there was none.
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(auth) = upstream.auth() {
            headers.insert(header::AUTHORIZATION, auth.clone());
        }
        // An answer in another coding could not be read for its token counts.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(&X_REQUEST_ID, self.request_id.clone());
        headers.insert(&TRACEPARENT, self.trace.parent.clone());
        headers.insert(header::VIA, self.via.clone());
        for (name, value) in [(&header::ACCEPT, &self.accept), (&TRACESTATE, &self.trace.state)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        if endpoint.types_errors() {
            for (name, value) in ANTHROPIC.iter().zip(&self.anthropic) {
                if let Some(value) = value {
                    headers.insert(*name, value.clone());
                }
            }
        }
        *request.headers_mut() = headers;
        request
    }

    fn uri(&self, upstream: &Upstream, endpoint: Endpoint) -> Uri {
        let uri = upstream.uri(endpoint);
        let asked = (self.beta && endpoint.types_errors()).then(|| format!("{uri}?{BETA}").parse());
        asked.and_then(Result::ok).unwrap_or_else(|| uri.clone())
    }
}

/// Returns the request's `Via` with this gateway added at its end (RFC 9110 §7.6.3); `None` if it is longer than any
/// real one.
fn chained(came: &HeaderValue, own: &HeaderValue) -> Option<HeaderValue> {
    if came.len() > MAX_VIA {
        return None;
    }
    HeaderValue::from_bytes(&[came.as_bytes(), b", ", own.as_bytes()].concat()).ok()
}

/// Refuses a request that this gateway has sent itself: it would loop until resources run out.
///
/// # Errors
/// 508 `request_loop`.
pub(crate) fn check_loop(config: &Config, headers: &HeaderMap) -> Result<(), ApiError> {
    let own = config.via.as_bytes();
    let mut hops = headers.get_all(header::VIA).iter().flat_map(|it| it.as_bytes().split(|it| *it == b','));
    if hops.any(|hop| hop.trim_ascii() == own) {
        let message =
            "the request comes from this gateway: the engine's address in the registry leads back to it";
        return Err(ApiError::new(ErrorCode::RequestLoop, message));
    }
    Ok(())
}

/// The head of the answer, its body, and the connection that has to be driven while the body is read.
pub(crate) struct Reply {
    pub link: Box<EngineConnection>,
    pub answer: Response<Incoming>,
}

/// Why there is no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    Unreachable(io::Error),
    /// The connection closed before anything of the request was written.
    Closed(hyper::Error),
    /// The connection broke after that and before the head was complete: the engine may have begun.
    Broken(hyper::Error),
    /// It answered, but with what is no answer of an engine.
    Unusable(Unusable),
    TimedOut,
    Cut,
}

/// Whether no connection could be made because this machine, or this process, lacks file descriptors, ports or memory
/// for one. It says nothing of the other end.
pub fn is_local_exhaustion(error: &io::Error) -> bool {
    let lack = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|it| lack.contains(&it))
}

impl Failure {
    /// Returns whether another engine may take the request: this one has received nothing of it, and is at fault.
    pub(crate) fn is_of_this_engine(&self) -> bool {
        match self {
            Self::Unreachable(error) => !is_local_exhaustion(error),
            Self::Closed(_) => true,
            Self::Broken(_) | Self::Unusable(_) | Self::TimedOut | Self::Cut => false,
        }
    }

    /// Returns why the request may be sent once more: the engine can't have begun it. `None` if it may not.
    fn retry(&self) -> Option<Retry> {
        match self {
            Self::Unreachable(_) => Some(Retry::Unreachable),
            Self::Closed(_) => Some(Retry::Closed),
            Self::Broken(_) | Self::Unusable(_) | Self::TimedOut | Self::Cut => None,
        }
    }
}

/// A request as an engine gets it.
pub(crate) struct Outgoing<'a> {
    pub endpoint: Endpoint,
    pub headers: &'a EngineHeaders,
    pub body: &'a Bytes,
    /// Longest time from sending it to the head of the answer.
    pub timeout: Duration,
}

impl Outgoing<'_> {
    fn request(&self, upstream: &Upstream) -> Request<Full<Bytes>> {
        self.headers.request(upstream, self.endpoint, self.body.clone())
    }
}

/// Sends the request, on a pooled connection if there is one. It is sent once more, on a new connection, if nothing of
/// it was written; an engine that can't be reached is tried again only if the route has no other one left (`is_last`).
///
/// # Errors
/// See [`Failure`].
pub(crate) async fn forward(
    thread: &ThreadState,
    upstream: &Upstream,
    is_last: bool,
    outgoing: &Outgoing<'_>,
    deadline: &mut Deadline,
) -> Result<Reply, Failure> {
    let pooled = poll_fn(|cx| Poll::Ready(thread.pool.take(upstream, Instant::now(), cx))).await;
    let failure = match once(thread, upstream, pooled, outgoing, deadline).await {
        Err(failure) => failure,
        reply => return reply,
    };
    let again = failure.retry().filter(|it| is_last || *it != Retry::Unreachable);
    let Some(retry) = again else { return Err(failure) };
    thread.shared.counters.upstream_retries[retry as usize].fetch_add(1, Relaxed);
    once(thread, upstream, None, outgoing, deadline).await
}

async fn once(
    thread: &ThreadState,
    upstream: &Upstream,
    pooled: Option<Box<EngineConnection>>,
    outgoing: &Outgoing<'_>,
    deadline: &mut Deadline,
) -> Result<Reply, Failure> {
    let mut link = match pooled {
        Some(link) => link,
        None => connect(thread, upstream, deadline).await?,
    };
    deadline.restart(outgoing.timeout);
    match deadline.limit(link.send(outgoing.request(upstream))).await {
        Ok(Ok(answer)) => Ok(Reply { link, answer }),
        Ok(Err(error)) if link.may_have_begun() => {
            if let Some((after, idle)) = link.kept() {
                upstream.keeping.broke(after, idle, Instant::now());
            }
            Err(Failure::Broken(error))
        }
        Ok(Err(error)) => Err(Failure::Closed(error)),
        Err(Over::TimedOut) => Err(Failure::TimedOut),
        Err(Over::Cut) => Err(Failure::Cut),
    }
}

async fn connect(
    thread: &ThreadState,
    upstream: &Upstream,
    deadline: &mut Deadline,
) -> Result<Box<EngineConnection>, Failure> {
    thread.shared.counters.upstream_connects.fetch_add(1, Relaxed);
    deadline.restart(thread.config.connect_timeout);
    match deadline.limit(EngineConnection::connect(upstream)).await {
        Ok(connected) => connected.map_err(Failure::Unreachable),
        Err(Over::TimedOut) => Err(Failure::Unreachable(io::ErrorKind::TimedOut.into())),
        Err(Over::Cut) => Err(Failure::Cut),
    }
}
