//! An inference request from its head to its answer. Each stage consumes the one before: the [`Meter`] of a known caller
//! becomes [`Peeked`], then a [`Routed`](super::routed::Routed), an [`Admitted`](super::admitted::Admitted) and a
//! [`Departed`] request.

use std::{
    net::IpAddr,
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header, request::Parts};
use hyper::body::Incoming;

use crate::{
    limits::{self, Moment, refusals},
    record::{
        access::Line,
        departed::Departed,
        meter::{Meter, Origin, RequestHead},
        spans::Facts,
    },
    request::{
        auth,
        body::{self, Problem},
        coding::Coding,
        deadline::Deadline,
        peeked::Peeked,
    },
    response::{
        answer::{self, Answer},
        headers,
        pass::pass,
        refusal::{Delayed, Refused, engine_refused, failed},
    },
    thread_state::ThreadState,
    upstream::{
        exchange::{EngineCall, NoAnswer, exchange},
        fallback::answer_as_chat,
        forward,
    },
};

/// Serves a `POST` to one of the [`Endpoint`]s.
pub(crate) async fn serve(
    thread: Rc<ThreadState>,
    request: Request<Incoming>,
    endpoint: Endpoint,
    peer: IpAddr,
) -> Response<Answer> {
    let created_at = thread.shared.clock.now();
    let head = RequestHead { id: thread.random.id(created_at), created_at, endpoint };
    let (parts, incoming) = request.into_parts();
    let origin = Origin {
        request_id: headers::request_id(&parts.headers).unwrap_or_else(|| headers::new_request_id(head.id)),
        trace: thread.trace(&parts.headers),
        client: auth::client(&thread.config, &parts.headers, peer).unwrap_or(peer),
    };
    let catalog = thread.shared.catalog.load();
    let caller = match auth::authenticate(&thread.config, &catalog, &parts.headers, created_at, true) {
        Ok(caller) => caller,
        Err(error) => return refuse_stranger(&thread, &head, &origin, &error),
    };
    drop(catalog);
    let charges = caller.charges().cloned();
    let meter = Meter::new(Rc::clone(&thread), head, origin, caller);
    let mut answer = answered(meter, parts, incoming, peer).await;
    if let Some(charges) = charges {
        let now = Moment::new(Instant::now(), created_at);
        limits::write_headers(&charges, &thread.shared.limiter, answer.headers_mut(), now);
    }
    if answer.extensions_mut().remove::<Delayed>().is_some() {
        // Only the connection is held meanwhile.
        tokio::time::sleep(refusals::DELAY).await;
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// The answer to a caller who is not known. Such a request has no usage row.
fn refuse_stranger(
    thread: &ThreadState,
    head: &RequestHead,
    origin: &Origin,
    error: &ApiError,
) -> Response<Answer> {
    thread.shared.counters.refused.fetch_add(1, Relaxed);
    let (path, status) = (head.endpoint.path(), error.code.status());
    let request_id = headers::text(&origin.request_id);
    thread.access.write(&Line {
        at: head.created_at,
        method: "POST",
        path,
        status,
        latency: Duration::ZERO,
        client: Some(origin.client),
        requests: 1,
        request_id,
        trace_id: origin.trace.id(),
        inference: None,
    });
    let facts = Facts {
        started: head.created_at,
        duration: Duration::ZERO,
        method: Method::POST,
        route: path,
        path: path.into(),
        status,
        client: origin.client,
        request_id,
    };
    thread.spans.write(&origin.trace, facts, || None);
    answer::error_at(head.endpoint, error, &origin.request_id)
}

/// The answer to a known caller.
async fn answered(
    mut meter: Box<Meter>,
    mut parts: Parts,
    incoming: Incoming,
    peer: IpAddr,
) -> Response<Answer> {
    let coding = match check_head(&mut meter, &parts.headers, peer) {
        Ok(coding) => coding,
        Err(error) => return Refused::new(meter, error).answer(),
    };
    let thread = Rc::clone(&meter.thread);
    let mut deadline = Deadline::new(Rc::clone(&thread), meter.started + thread.config.body_timeout);
    // The memory is given back with the body, when the engine begins to answer.
    let mut reservation = thread.shared.body_memory.reserve(thread.config.body_memory, meter.caller.id());
    let max = thread.config.max_body;
    let bytes = match body::read(incoming, coding, max, &mut reservation, &mut deadline).await {
        Ok(bytes) => bytes,
        Err(Problem::Refused(error)) => {
            let mut answer = Refused::new(meter, error).answer();
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return answer;
        }
        Err(Problem::Broken) => {
            let error = ApiError::new(ErrorCode::InvalidRequest, "the body is not complete");
            // Dropping the meter writes the row, which says that the client left.
            return answer::error_at(meter.head.endpoint, &error, &meter.origin.request_id);
        }
    };
    let prepared = prepare(meter, bytes, &mut parts, &mut deadline).await;
    drop(parts);
    let (mut departed, mut call) = match prepared {
        Ok(prepared) => prepared,
        Err(refused) => return refused.answer(),
    };
    match exchange(&mut departed, &mut call, &mut deadline).await {
        Ok((reply, form)) if form.needs_whole(&reply) => {
            Box::pin(answer_as_chat(departed, deadline, reply)).await
        }
        Ok((reply, form)) => pass(departed, deadline, reply, call.strip, form.chunks()),
        Err(NoAnswer::Refused(refused)) => engine_refused(departed, refused),
        Err(NoAnswer::Failed(failure)) => failed(departed, &failure),
    }
}

/// Checks everything that the head of a request decides, and takes a place among the caller's running requests. Returns
/// how the body is compressed.
fn check_head(meter: &mut Meter, headers: &HeaderMap, peer: IpAddr) -> Result<Coding, ApiError> {
    let config = &meter.thread.config;
    meter.caller.authorize(config, headers, peer, meter.head.endpoint.scope())?;
    forward::check_loop(config, headers)?;
    let coding = body::check_type(headers, meter.caller.key().is_none())?;
    meter.enter()?;
    Ok(coding)
}

/// Takes a request through its stages, until its intent is on disk and it may go to an engine.
async fn prepare(
    meter: Box<Meter>,
    body: Bytes,
    parts: &mut Parts,
    deadline: &mut Deadline,
) -> Result<(Departed, EngineCall), Refused> {
    let routed = Peeked::new(meter, &body)?.route()?;
    let admitted = routed.admit(deadline, &parts.headers).await?;
    admitted.depart(body, &mut parts.headers, parts.uri.query())
}
