//! An inference request from its head to the head of its answer. Each stage needs the result of the one before.

use std::{
    net::IpAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::Bytes;
use gantry_domain::{
    ApiError, ErrorCode,
    endpoint::Endpoint,
    model::{EngineKind, State},
    name,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, header, request::Parts};
use hyper::body::Incoming;

use crate::{
    catalog::{Route, RouteTarget, Upstream},
    limits::{self, Demand, refusals},
    record::{access::Line, meter::Meter, spans::Facts},
    request::{
        auth,
        body::{self, Problem},
        deadline::Deadline,
        patch, peek,
        token_estimate::TokenEstimate,
        wait_queue::{self, Found},
    },
    response::{
        answer::{self, Answer},
        headers,
        refusal::{Delayed, Refusal, engine_refused, failed, read_refusal, refuse_with_row},
        tap::{Framing, Tap},
        tokens::UsageOf,
    },
    shared::Retry,
    thread_state::ThreadState,
    upstream::{
        choose::Untried,
        fallback::{self, Chunks, Missing},
        forward::{self, EngineHeaders, Failure, Reply},
        progress::{Class, Entrant},
    },
};

/// What the request's body asks for, and the engine for it.
pub(crate) struct Wanted {
    pub route: Arc<Route>,
    /// The engine that has the request.
    pub upstream: Arc<Upstream>,
    /// Engines that the request can still go to if `upstream` can't be reached.
    untried: Untried,
    pub body: Bytes,
    /// Only the gateway asked for the usage event, so it is removed from the answer.
    pub strip: bool,
}

/// Serves a `POST` to one of the [`Endpoint`]s.
pub(crate) async fn serve(
    thread: Rc<ThreadState>,
    request: Request<Incoming>,
    endpoint: Endpoint,
    peer: IpAddr,
) -> Response<Answer> {
    let now = thread.shared.clock.now();
    let id = thread.random.id(now);
    let (parts, incoming) = request.into_parts();
    let request_id = headers::request_id(&parts.headers).unwrap_or_else(|| headers::new_request_id(id));
    let trace = thread.trace(&parts.headers);
    let client = auth::client(&thread.config, &parts.headers, peer).unwrap_or(peer);
    let caller = auth::authenticate(&thread.config, &thread.shared.catalog.load(), &parts.headers, now, true);
    let caller = match caller {
        Ok(caller) => caller,
        Err(error) => {
            thread.shared.counters.refused.fetch_add(1, Relaxed);
            thread.access.write(&Line {
                at: now,
                method: "POST",
                path: endpoint.path(),
                status: error.code.status(),
                latency: Duration::ZERO,
                client: Some(client),
                requests: 1,
                request_id: headers::text(&request_id),
                trace_id: trace.id(),
                inference: None,
            });
            let facts = Facts {
                started: now,
                duration: Duration::ZERO,
                method: Method::POST,
                route: endpoint.path(),
                path: endpoint.path().into(),
                status: error.code.status(),
                client,
                request_id: headers::text(&request_id),
            };
            thread.spans.write(&trace, facts, || None);
            return answer::error_at(endpoint, &error, &request_id);
        }
    };
    let charges = caller.charges().cloned();
    let from = (request_id, trace, client);
    let meter = Meter::new(Rc::clone(&thread), (id, now), from, caller, endpoint);
    let mut answer = answered(meter, parts, incoming, peer).await;
    if let Some(charges) = charges {
        limits::write_headers(&charges, &thread.shared.limiter, answer.headers_mut(), (Instant::now(), now));
    }
    if answer.extensions_mut().remove::<Delayed>().is_some() {
        // Only the connection is held meanwhile.
        tokio::time::sleep(refusals::DELAY).await;
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// The answer to a known caller.
async fn answered(
    mut meter: Box<Meter>,
    mut parts: Parts,
    incoming: Incoming,
    peer: IpAddr,
) -> Response<Answer> {
    let (thread, endpoint) = (Rc::clone(&meter.thread), meter.endpoint);
    let request_id = meter.request_id.clone();
    let allowed = meter
        .caller
        .authorize(&thread.config, &parts.headers, peer, endpoint.scope())
        .and_then(|()| forward::check_loop(&thread.config, &parts.headers))
        .and_then(|()| body::check_type(&parts.headers, meter.caller.key().is_none()))
        .and_then(|()| meter.enter());
    if let Err(error) = allowed {
        return refuse_with_row(&mut meter, error.into());
    }
    let mut deadline = Deadline::new(Rc::clone(&thread), meter.started + thread.config.body_timeout);
    // The memory is given back with the body, when the engine begins to answer.
    let mut reservation = thread.shared.body_memory.reserve(thread.config.body_memory, meter.caller.id());
    let bytes = match body::read(incoming, thread.config.max_body, &mut reservation, &mut deadline).await {
        Ok(bytes) => bytes,
        Err(Problem::Refused(error)) => {
            let mut answer = refuse_with_row(&mut meter, error.into());
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return answer;
        }
        Err(Problem::Broken) => {
            let error = ApiError::new(ErrorCode::InvalidRequest, "the body is not complete");
            // Dropping the meter writes the row, which says that the client left.
            return answer::error_at(endpoint, &error, &request_id);
        }
    };
    let mut wanted = match prepare(&mut meter, &mut deadline, &parts.headers, bytes).await {
        Ok(wanted) => wanted,
        Err(refusal) => return refuse_with_row(&mut meter, refusal),
    };
    let head = EngineHeaders::new(&mut parts.headers, request_id, &meter.trace, &thread.config.via);
    drop(parts);
    if endpoint == Endpoint::ChatCompletions
        && wanted.upstream.lacks_chat_template.load(Relaxed)
        && let Some(body) = fallback::completion(&wanted.body)
    {
        return Box::pin(fallback::serve(meter, deadline, head, wanted, body)).await;
    }
    let body = wanted.body.clone();
    match send(&mut meter, &mut deadline, &head, &mut wanted, endpoint, &body).await {
        Ok(reply) if reply.answer.status().is_success() => pass(meter, deadline, reply, &wanted, None),
        Ok(reply) => {
            let refused = match read_refusal(&mut deadline, reply, &meter).await {
                Ok(refused) => refused,
                Err(refusal) => return refuse_with_row(&mut meter, refusal),
            };
            if endpoint == Endpoint::ChatCompletions
                && wanted.route.engine == Some(EngineKind::Vllm)
                && let Some(missing) = fallback::missing(refused.status.as_u16(), &refused.body)
                && let Some(body) = fallback::completion(&wanted.body)
            {
                if missing == Missing::Certain {
                    wanted.upstream.lacks_chat_template.store(true, Relaxed);
                }
                return Box::pin(fallback::serve(meter, deadline, head, wanted, body)).await;
            }
            engine_refused(meter, refused)
        }
        Err(failure) => {
            let refusal = failed(&failure, &meter);
            refuse_with_row(&mut meter, refusal)
        }
    }
}

/// Brings a body to `endpoint` of the engine, up to the head of its answer. If the engine can't be reached, another one of
/// the route gets it.
pub(crate) async fn send(
    meter: &mut Meter,
    deadline: &mut Deadline,
    head: &EngineHeaders,
    wanted: &mut Wanted,
    endpoint: Endpoint,
    body: &Bytes,
) -> Result<Reply, Failure> {
    let (thread, timeout) = (Rc::clone(&meter.thread), wanted.route.request_timeout);
    loop {
        let is_last = !wanted.untried.any();
        let link =
            forward::forward(&thread, (&wanted.upstream, is_last), endpoint, head, body, deadline, timeout);
        let failure = match link.await {
            Ok(reply) => {
                meter.heard(Instant::now());
                return Ok(reply);
            }
            Err(failure) => failure,
        };
        let now = Instant::now();
        if !failure.is_of_this_engine() {
            return Err(failure);
        }
        let entrant = entrant(meter, &wanted.route);
        let Ok(permit) = wanted.untried.enter(wanted.route.target.upstreams(), &entrant, now) else {
            return Err(failure);
        };
        tracing::debug!(?failure, id = %meter.id, "an engine can't be reached, and another one gets the request");
        thread.shared.counters.upstream_retries[Retry::Elsewhere as usize].fetch_add(1, Relaxed);
        wanted.upstream = Arc::clone(&permit.upstream);
        meter.divert(permit, now);
    }
}

/// Reads the body, finds the model, waits for it if it is being applied, and gets an engine's permission. When it
/// returns, the intent is on disk.
async fn prepare(
    meter: &mut Meter,
    deadline: &mut Deadline,
    headers: &HeaderMap,
    bytes: Bytes,
) -> Result<Wanted, Refusal> {
    meter.body_bytes = bytes.len() as u64;
    let peeked = peek::peek(&bytes).inspect_err(|_| {
        if let Some(name) = peek::named(&bytes) {
            meter.requested(&name);
        }
    })?;
    let streams = peeked.stream && meter.endpoint.streams();
    meter.stream = streams;
    if let Err(error) = peek::media::check(peeked.tensors, &peeked.fetched, &meter.thread.config.media) {
        meter.requested(&peeked.model);
        return Err(error.into());
    }
    let catalog = meter.thread.shared.catalog.load();
    let Some(route) = catalog.routes.get(peeked.model.as_ref()) else {
        meter.requested(&peeked.model);
        drop(catalog);
        // Requests for unknown models count against `rpm_limit`, because each writes a usage row.
        meter.admit(Demand { tokens: None, stream: false })?;
        return Err(no_such_model(&peeked.model).into());
    };
    let route = Arc::clone(route);
    drop(catalog);
    meter.routed(Arc::clone(&route));
    let found = resolve(meter, &route)?;
    meter.estimate = TokenEstimate::new(meter.endpoint, &route, &peeked, meter.body_bytes);
    if meter.endpoint == Endpoint::Responses && peeked.choices.is_some_and(|it| it > 1) {
        // llama-server would answer with a list, which no client can use.
        let message = "a response is one answer: `n` can be 1 only";
        return Err(ApiError::new(ErrorCode::ParameterNotAllowed, message).with_param("n").into());
    }
    if meter.is_limited() {
        let tokens = meter.endpoint.runs_model().then(|| meter.estimate.reservation());
        meter.admit(Demand { tokens, stream: streams })?;
    }
    let route = match found {
        Found::Up(()) => route,
        Found::Returning(_) => Box::pin(until_back(meter, deadline, headers, &route)).await?,
    };
    let now = Instant::now();
    let engines = route.target.upstreams();
    let mut untried = Untried::all(engines.len(), meter.id.as_u128());
    let permit = untried.enter(engines, &entrant(meter, &route), now)?;
    let upstream = Arc::clone(&permit.upstream);
    meter.depart(permit, now).map_err(|error| {
        tracing::error!(%error, "requests are refused, because their usage can't be recorded");
        ApiError::new(ErrorCode::MeteringUnavailable, "usage can't be recorded now").retry_after(5)
    })?;
    let asks = streams && meter.endpoint.has_stream_options();
    let usage = if asks { patch::include_usage(&peeked.usage_slot) } else { None };
    let strip = asks && !peeked.include_usage;
    let model = route.upstream_model.as_deref().map(|name| patch::name_model(peeked.model_at.clone(), name));
    let mut body = patch::apply(bytes, [model, usage]);
    if let Some(defaults) = &route.request_defaults
        && meter.endpoint.takes_defaults()
    {
        body = defaults.splice(body);
    }
    Ok(Wanted { route, upstream, untried, body, strip })
}

fn entrant(meter: &Meter, route: &Route) -> Entrant {
    Entrant {
        caller: meter.caller.id(),
        class: Class::new(meter.stream, meter.body_bytes),
        tokens: if meter.stream { 0 } else { meter.estimate.patience() },
        timeout: route.request_timeout,
    }
}

pub(crate) fn no_such_model(name: &str) -> ApiError {
    let message =
        format!("there is no model `{}`; `GET /v1/models` lists those you may call", name::shown(name));
    ApiError::new(ErrorCode::ModelNotFound, message).with_param("model")
}

/// Waits until a model that is being applied is back. Then everything that the catalog says of it is checked again.
async fn until_back(
    meter: &mut Meter,
    deadline: &mut Deadline,
    headers: &HeaderMap,
    route: &Route,
) -> Result<Arc<Route>, ApiError> {
    let thread = Rc::clone(&meter.thread);
    let name = route.served_name.as_str();
    let patience = wait_queue::patience(headers).unwrap_or(Duration::MAX).min(route.request_timeout);
    let limit = meter.started + patience;
    let look = || {
        let catalog = thread.shared.catalog.load();
        let route = catalog.routes.get(name).ok_or_else(|| no_such_model(name))?;
        Ok(match resolve(meter, route)? {
            Found::Up(()) => Found::Up(Arc::clone(route)),
            Found::Returning(until) => Found::Returning(until),
        })
    };
    let route = wait_queue::wait(&thread.shared, deadline, name, limit, look).await?;
    meter.routed(Arc::clone(&route));
    Ok(route)
}

fn resolve(meter: &Meter, route: &Route) -> Result<Found<()>, ApiError> {
    if !meter.caller.may_call(&route.served_name) {
        return Err(ApiError::new(
            ErrorCode::ModelNotAllowed,
            "this key, or its user, may not call this model",
        )
        .with_param("model"));
    }
    if !meter.caller.fits(route.task) && meter.endpoint.scope().is_none() {
        let message = format!("this key lacks the scopes of models for `{}`", route.task);
        return Err(ApiError::new(ErrorCode::InsufficientScope, message));
    }
    if meter.endpoint.task().is_some_and(|it| it != route.task) {
        let message = format!("`{}` is a model for `{}`", route.served_name, route.task);
        return Err(ApiError::new(ErrorCode::TaskMismatch, message).with_param("model"));
    }
    match &route.target {
        RouteTarget::Up(_) | RouteTarget::AnyOf(_) => Ok(Found::Up(())),
        RouteTarget::Returning { until } => Ok(Found::Returning(*until)),
        RouteTarget::Elsewhere => {
            let message = format!(
                "the model `{}` runs on another machine, and only a gateway there leads to it",
                route.served_name
            );
            Err(ApiError::new(ErrorCode::ModelNotRunning, message))
        }
        RouteTarget::Down { state } => {
            let is = if *state == State::Failed { "has" } else { "is" };
            let message = format!("the model `{}` {is} {state}", route.served_name);
            let error = ApiError::new(ErrorCode::ModelNotRunning, message);
            Err(match state {
                State::Starting | State::Loading => error.retry_after(2).retryable(true),
                _ => error,
            })
        }
    }
}

/// Lets a good answer through; `chunks` change its events on the way.
pub(crate) fn pass(
    meter: Box<Meter>,
    deadline: Deadline,
    reply: Reply,
    wanted: &Wanted,
    chunks: Option<Box<Chunks>>,
) -> Response<Answer> {
    let (mut parts, body) = reply.answer.into_parts();
    if let Some(upstream) = meter.upstream() {
        // The flag is stored only if it changes: otherwise its cache line would move between the threads' caches.
        if upstream.key_mismatch.load(Relaxed) {
            upstream.key_mismatch.store(false, Relaxed);
        }
    }
    let headers = &mut parts.headers;
    let kind = headers.remove(header::CONTENT_TYPE);
    let events = kind.as_ref().is_some_and(headers::is_event_stream);
    let delimited =
        headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING);
    let cache = headers.remove(header::CACHE_CONTROL);
    // An upstream of the registry may be llama-server, too.
    let is_llama = match wanted.route.engine {
        Some(engine) => engine == EngineKind::Llamacpp,
        None => headers.get(header::SERVER).is_some_and(|it| it.as_bytes().starts_with(b"llama.cpp")),
    };
    let usage_of = if is_llama { UsageOf::Choice } else { UsageOf::Answer };
    // The engine's other headers (its name, CORS) are not for clients. The map is reused for its memory.
    headers.clear();
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    match cache {
        _ if events => drop(headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))),
        Some(cache) => drop(headers.insert(header::CACHE_CONTROL, cache)),
        None => {}
    }
    headers::common(headers, &meter.request_id);
    if wanted.route.simulator {
        headers::simulated(headers);
    }
    let framing = Framing { events, delimited, strip: wanted.strip, usage_of };
    let status = parts.status.as_u16();
    let idle = wanted.route.stream_idle_timeout;
    let mut tap = Tap::new(meter, reply.link, body, deadline, (status, framing, idle));
    if let Some(chunks) = chunks {
        tap.reshape(chunks);
    }
    tap.end_if_empty();
    let mut answer = Response::new(Answer::Tap(tap));
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = parts.headers;
    answer
}
