//! Routes each request to the code that answers it.

use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll},
    time::Instant,
};

use futures_util::future::LocalBoxFuture;
use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint, web::Audience};
use http::{HeaderValue, Method, Request, Response, StatusCode, header, uri::Authority};
use hyper::body::Incoming;

use crate::{
    config::Peer,
    connection::state::Arrival,
    record::{
        access::Line,
        spans::Facts,
        trace::{TRACEPARENT, Trace},
    },
    request::{
        auth, inference,
        models::{self, ModelsPath},
    },
    response::{
        answer::{self, Answer},
        errors::shutting_down,
        headers::{self, X_REQUEST_ID},
    },
    thread_state::{ShutdownPhase, ThreadState},
};

/// Answers any request.
pub(crate) fn handle(
    thread: &Rc<ThreadState>,
    request: Request<Incoming>,
    peer: Peer,
    arrival: Arrival,
) -> Handling {
    let inner = Rc::clone(thread);
    let health = tells_health(request.uri().path());
    let own = is_own(request.uri().path());
    let origin = if thread.config.web.has_origins() { request.headers().get(header::ORIGIN) } else { None };
    let origin = origin.cloned();
    // Inference comes first: its path must be the shortest.
    let inner: LocalBoxFuture<'static, _> = match Endpoint::asked_for(request.uri().path()) {
        endpoint if arrival == Arrival::Late && !health => {
            Box::pin(std::future::ready(refused(thread, &request, endpoint, &shutting_down())))
        }
        // Load balancers ask for the health under any host name; the admin API checks host names itself.
        endpoint if own && !health && !is_known(thread, &request) => {
            let authority = request.uri().authority().map(Authority::as_str);
            let error = thread.config.web.unknown_host(request.headers(), authority);
            Box::pin(std::future::ready(refused(thread, &request, endpoint, &error)))
        }
        endpoint if !is_understood(&request) => {
            let message = "the only `Transfer-Encoding` allowed is a single `chunked`";
            let error = ApiError::new(ErrorCode::InvalidRequest, message);
            let mut answer = refused(thread, &request, endpoint, &error);
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            Box::pin(std::future::ready(answer))
        }
        Some(endpoint) if request.method() == Method::POST => {
            Box::pin(inference::serve(inner, request, endpoint, peer.addr.ip()))
        }
        _ => Box::pin(logged(inner, request, peer)),
    };
    Handling { thread: Rc::clone(thread), inner, own, origin }
}

/// Paths that the data plane answers itself.
fn is_own(path: &str) -> bool {
    matches!(path, "/health" | "/livez")
        || Endpoint::asked_for(path).is_some()
        || models::wanted(path).is_some()
}

/// Returns whether the body has no coding that hyper leaves in place. hyper removes the last coding, `chunked`, and
/// leaves unknown and further ones (RFC 9112 §6.1).
fn is_understood(request: &Request<Incoming>) -> bool {
    let codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let codings = codings.flat_map(|it| it.as_bytes().split(|it| *it == b',')).map(<[u8]>::trim_ascii);
    let mut known = 0;
    for coding in codings.filter(|it| !it.is_empty()) {
        known += 1;
        if known > 1 || !coding.eq_ignore_ascii_case(b"chunked") {
            return false;
        }
    }
    true
}

fn is_known(thread: &ThreadState, request: &Request<Incoming>) -> bool {
    thread.config.web.knows_host(request.headers(), request.uri().authority().map(Authority::as_str))
}

fn refused(
    thread: &ThreadState,
    request: &Request<Incoming>,
    endpoint: Option<Endpoint>,
    error: &ApiError,
) -> Response<Answer> {
    let request_id = request_id(thread, request);
    match endpoint {
        Some(endpoint) => answer::error_at(endpoint, error, &request_id),
        None => answer::error(error, &request_id, false),
    }
}

/// A request being handled. Boxed, because hyper reserves the room for it in each connection, also while an answer
/// streams. A panic becomes a 500; the request's row is written by its guard.
pub(crate) struct Handling {
    thread: Rc<ThreadState>,
    inner: LocalBoxFuture<'static, Response<Answer>>,
    /// The admin API adds CORS to its answers itself.
    own: bool,
    origin: Option<HeaderValue>,
}

impl Future for Handling {
    type Output = Result<Response<Answer>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Nothing of a request that panicked is used afterwards: it owns everything that it changes, except for state
        // that is consistent at every instruction (counters, the spool's records).
        let polled = catch_unwind(AssertUnwindSafe(|| this.inner.as_mut().poll(cx)));
        polled.map_or_else(
            |_| {
                this.thread.shared.counters.panics.fetch_add(1, Relaxed);
                let request_id = new_request_id(&this.thread);
                Poll::Ready(Ok(answer::error(&ApiError::internal(), &request_id, true)))
            },
            |polled| {
                polled.map(|mut answer| {
                    if this.own {
                        let web = &this.thread.config.web;
                        web.add_cors(Audience::Keys, this.origin.as_ref(), answer.headers_mut());
                    }
                    if this.thread.phase() >= ShutdownPhase::Leave {
                        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok(answer)
                })
            },
        )
    }
}

/// Handles a path that is not inference, and writes its access-log line, and a span if it is below `/v1`. Probes of load
/// balancers get neither.
async fn logged(thread: Rc<ThreadState>, request: Request<Incoming>, peer: Peer) -> Response<Answer> {
    let route = thread.spans.sampler().and_then(|_| route(request.uri().path()));
    if (!thread.access.wants(200) && route.is_none()) || tells_health(request.uri().path()) {
        return other_paths(thread, request, peer).await;
    }
    let (at, started) = (thread.shared.clock.now(), Instant::now());
    let client = auth::client(&thread.config, request.headers(), peer.addr.ip()).unwrap_or(peer.addr.ip());
    let traced = route.is_some() || request.headers().contains_key(&TRACEPARENT);
    let trace = traced.then(|| thread.trace(request.headers()));
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let answer = other_paths(Rc::clone(&thread), request, peer).await;
    // Valid paths are shorter than the limit. The query is left out, as it may hold a secret.
    let path = &uri.path()[..uri.path().floor_char_boundary(MAX_PATH)];
    let (status, latency) = (answer.status().as_u16(), started.elapsed());
    let request_id = answer.headers().get(&X_REQUEST_ID).map(headers::text).unwrap_or_default();
    thread.access.write(&Line {
        at,
        method: method.as_str(),
        path,
        status,
        latency,
        client: Some(client),
        requests: 1,
        request_id,
        trace_id: trace.as_ref().map(Trace::id).unwrap_or_default(),
        inference: None,
    });
    if let (Some(trace), Some(route)) = (&trace, route) {
        let path = path.to_owned().into();
        let facts = Facts { started: at, duration: latency, method, route, path, status, client, request_id };
        thread.spans.write(trace, facts, || None);
    }
    answer
}

/// Returns the route that spans have for a path of this API; `None` for any other path.
fn route(path: &str) -> Option<&'static str> {
    let models = models::wanted(path).map(|it| match it {
        ModelsPath::List => "/v1/models",
        ModelsPath::One(_) => "/v1/models/{model}",
    });
    models.or_else(|| Endpoint::asked_for(path).map(Endpoint::path))
}

async fn other_paths(
    thread: Rc<ThreadState>,
    mut request: Request<Incoming>,
    peer: Peer,
) -> Response<Answer> {
    let path = request.uri().path();
    let (endpoint, wanted) = (Endpoint::asked_for(path), models::wanted(path));
    let health = matches!(path, "/health" | "/livez");
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    // TRACE is refused by the code that knows the path, with the methods that it has (RFC 9110 §15.5.6).
    let refused = *request.method() == Method::CONNECT || upgrades(&request);
    if *request.method() == Method::OPTIONS
        && (endpoint.is_some() || wanted.is_some() || health)
        && let Some(allowed) = thread.config.web.preflight(Audience::Keys, request.headers())
    {
        let mut answer = answer::json(StatusCode::NO_CONTENT, &request_id(&thread, &request), "");
        answer.headers_mut().remove(header::CONTENT_TYPE);
        answer.headers_mut().extend(allowed);
        return answer;
    }
    if refused || endpoint.is_some() || ((wanted.is_some() || health) && !reads) {
        let error = ApiError::new(ErrorCode::MethodNotAllowed, "this path has no such method");
        let mut answer = self::refused(&thread, &request, endpoint, &error);
        if !refused {
            let allowed = if endpoint.is_some() { "POST" } else { "GET, HEAD" };
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        return answer;
    }
    if path == READYZ && thread.phase() >= ShutdownPhase::Leave {
        // The gateway reports that it is leaving, although it still serves requests.
        request.extensions_mut().insert(Leaving);
    }
    if health {
        let body = serde_json::json!({"status": "ok", "version": thread.config.version}).to_string();
        return answer::json(StatusCode::OK, &request_id(&thread, &request), body);
    }
    if let Some(wanted) = wanted {
        return models::serve(&thread, &request, &wanted, peer.addr.ip());
    }
    let request_id = request_id(&thread, &request);
    request.headers_mut().insert(&X_REQUEST_ID, request_id);
    let answer = (thread.other)(request, peer).await;
    // An event stream may have no end of its own (the log of an engine), and would hold up the gateway's end.
    let events = answer.headers().get(header::CONTENT_TYPE).is_some_and(headers::is_event_stream)
        && answer.extensions().get::<HasEnd>().is_none();
    answer.map(|body| if events { Answer::Events(body, thread) } else { Answer::Other(body) })
}

/// Marks a stream of events that ends by itself, before the gateway does.
#[derive(Debug, Clone, Copy)]
pub struct HasEnd;

/// Marks a request for `/readyz` while the gateway is leaving, for the admin API, which can't know it.
#[derive(Debug, Clone, Copy)]
pub struct Leaving;

/// Longest part of a path that is in the access log and in spans, in bytes.
const MAX_PATH: usize = 300;
const READYZ: &str = "/readyz";

fn tells_health(path: &str) -> bool {
    matches!(path, "/health" | "/livez" | READYZ)
}

/// Returns whether a request demands a web socket. `Upgrade: h2c` is only an offer that many clients make, and may be
/// ignored.
fn upgrades(request: &Request<Incoming>) -> bool {
    request.headers().get(header::UPGRADE).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn request_id(thread: &ThreadState, request: &Request<Incoming>) -> HeaderValue {
    headers::request_id(request.headers()).unwrap_or_else(|| new_request_id(thread))
}

fn new_request_id(thread: &ThreadState) -> HeaderValue {
    headers::new_request_id(thread.random.id(thread.shared.clock.now()))
}
