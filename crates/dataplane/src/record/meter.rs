//! The one usage row of a request. A [`Meter`] is made when authentication has passed and ends exactly once: by
//! [`Meter::finish`], or by being dropped, which means that the client left (or that the gateway has a bug).

use std::{
    net::IpAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_domain::{
    ApiError, ErrorCode, Timestamp,
    endpoint::Endpoint,
    model::{State, Task},
    usage::{Outcome, STATUS_CLIENT_CLOSED},
};
use http::{HeaderValue, Method};
use uuid::Uuid;

use crate::{
    catalog::{Route, RouteTarget, Upstream},
    limits::{self, Demand, Ticket},
    record::{
        access::{Inference, Line},
        spans::{Call, Facts},
        spool::RowRef,
        stats::ModelStats,
        trace::Trace,
    },
    request::{
        auth::Caller,
        token_estimate::{TokenEstimate, estimate_tokens},
    },
    response::{headers, tokens::Counts},
    thread_state::{ShutdownPhase, ThreadState},
    upstream::{
        breaker::{Pass, Verdict},
        choose::Permit,
        progress::Watch,
    },
};

/// Most characters of a name that a client made up in a row.
const MAX_NAME_CHARS: usize = 200;
/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub status: u16,
    pub outcome: Outcome,
    pub tokens: Tokens,
    pub ttft: Option<Duration>,
    /// What the end says about the engine; `None` if nothing.
    pub verdict: Option<Verdict>,
}

/// Token counts of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tokens {
    /// No engine worked on it.
    None,
    /// The engine's counts.
    Counted(TokensUsed),
    /// The engine's counts, and the gateway's own for those that the engine left out.
    HalfCounted(TokensUsed),
    /// The prompt is estimated from the size of the body; the completion is as given.
    Estimated { completion: u64 },
}

/// Tokens that a request used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokensUsed {
    pub prompt: i64,
    pub completion: i64,
    /// Prompt tokens out of the prefix cache.
    pub cached: Option<i64>,
}

enum Name {
    Unknown,
    Requested(Box<str>),
    Routed(Arc<Route>),
}

/// Measures one request and writes its usage row.
pub(crate) struct Meter {
    pub thread: Rc<ThreadState>,
    pub id: Uuid,
    pub request_id: HeaderValue,
    pub trace: Trace,
    /// The address of the client, with proxies taken into account.
    pub client: IpAddr,
    pub caller: Caller,
    pub endpoint: Endpoint,
    pub started: Instant,
    pub stream: bool,
    pub body_bytes: u64,
    /// What its body asks for.
    pub estimate: TokenEstimate,
    created_at: Timestamp,
    name: Name,
    ticket: Option<Ticket>,
    flight: Option<Flight>,
    ended: bool,
}

/// A request that an engine works on.
struct Flight {
    upstream: Arc<Upstream>,
    pass: Option<Pass>,
    watch: Watch,
    /// When the request went to the engine.
    since: Instant,
}

impl Flight {
    fn begin(permit: Permit, since: Instant) -> Self {
        let Permit { upstream, pass, watch } = permit;
        upstream.in_flight.fetch_add(1, Relaxed);
        Self { upstream, pass: Some(pass), watch, since }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.upstream.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Meter {
    pub(crate) fn new(
        thread: Rc<ThreadState>,
        (id, created_at): (Uuid, Timestamp),
        (request_id, trace, client): (HeaderValue, Trace, IpAddr),
        caller: Caller,
        endpoint: Endpoint,
    ) -> Box<Self> {
        thread.shared.counters.in_flight.fetch_add(1, Relaxed);
        Box::new(Self {
            thread,
            id,
            request_id,
            trace,
            client,
            caller,
            endpoint,
            started: Instant::now(),
            stream: false,
            body_bytes: 0,
            estimate: TokenEstimate::default(),
            created_at,
            name: Name::Unknown,
            ticket: None,
            flight: None,
            ended: false,
        })
    }

    pub(crate) fn requested(&mut self, name: &str) {
        let end = name.char_indices().nth(MAX_NAME_CHARS).map_or(name.len(), |(at, _)| at);
        self.name = Name::Requested(name[..end].into());
    }

    pub(crate) fn routed(&mut self, route: Arc<Route>) {
        self.name = Name::Routed(route);
    }

    /// Returns whether its engine is one that the gateway started.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(&self.name, Name::Routed(route) if route.engine.is_some())
    }

    /// Whether its engine is a simulator.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(&self.name, Name::Routed(route) if route.simulator)
    }

    /// Takes a place among the running requests of the caller.
    ///
    /// # Errors
    /// 429: the caller has no place left.
    pub(crate) fn enter(&mut self) -> Result<(), ApiError> {
        if let Some(charges) = self.caller.charges() {
            self.ticket = Some(limits::enter(&self.thread.shared.limiter, charges, self.started)?);
        }
        Ok(())
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.ticket.is_some()
    }

    /// Takes everything else that the request needs of its caller's limits.
    ///
    /// # Errors
    /// 429: the limit that refuses it.
    pub(crate) fn admit(&mut self, demand: Demand) -> Result<(), ApiError> {
        let at = (self.started, self.created_at);
        match &mut self.ticket {
            Some(ticket) => ticket.admit(&self.thread.shared.limiter, demand, at),
            None => Ok(()),
        }
    }

    /// Writes the intent. After that, the request may go to the engine.
    ///
    /// # Errors
    /// It can't be metered.
    pub(crate) fn depart(&mut self, permit: Permit, now: Instant) -> std::io::Result<()> {
        let interrupted = End {
            status: 500,
            outcome: Outcome::UpstreamError,
            tokens: Tokens::Estimated { completion: 0 },
            ttft: None,
            verdict: None,
        };
        self.thread.record_intent(&self.row(&interrupted, Duration::ZERO))?;
        self.flight = Some(Flight::begin(permit, now));
        Ok(())
    }

    /// Moves the request to another engine, because the one that had it could not be reached.
    pub(crate) fn divert(&mut self, permit: Permit, now: Instant) {
        if let Some(mut before) = self.flight.replace(Flight::begin(permit, now))
            && let Some(pass) = before.pass.take()
        {
            pass.finish(Verdict::Failure, now);
        }
    }

    pub(crate) fn upstream(&self) -> Option<&Arc<Upstream>> {
        self.flight.as_ref().map(|it| &it.upstream)
    }

    /// Returns the error for a client whose engine was ended by the gateway itself; `None` if the engine broke off by
    /// itself.
    pub(crate) fn ended_on_purpose(&self) -> Option<ApiError> {
        let (Name::Routed(route), Some(upstream)) = (&self.name, self.upstream()) else { return None };
        // The gateway ends no engine that runs elsewhere.
        if matches!(route.target, RouteTarget::AnyOf(_)) {
            return None;
        }
        let catalog = self.thread.shared.catalog.load();
        let stopped = "the model was stopped before its answer was complete";
        let applied = "the model was applied, and its engine stopped before its answer was complete";
        Some(match catalog.routes.get(&route.served_name).map(|it| &it.target) {
            Some(RouteTarget::Up(now)) if now.id == upstream.id => return None,
            Some(RouteTarget::Up(_) | RouteTarget::Returning { .. }) => {
                ApiError::new(ErrorCode::ModelUnavailable, applied)
            }
            None | Some(RouteTarget::Down { state: State::Stopping | State::Stopped }) => {
                ApiError::new(ErrorCode::ModelNotRunning, stopped)
            }
            Some(RouteTarget::AnyOf(_) | RouteTarget::Down { .. } | RouteTarget::Elsewhere) => return None,
        })
    }

    /// Notes that the engine sent something.
    pub(crate) fn heard(&self, now: Instant) {
        if let Some(flight) = &self.flight {
            flight.watch.heard(now);
        }
    }

    /// Notes that the request waits: the engine has sent nothing that could be passed on.
    pub(crate) fn waits(&self) {
        if let Some(flight) = &self.flight
            && !flight.watch.is_waiting()
        {
            flight.watch.waits(Instant::now());
        }
    }

    /// Returns whether its caller may ask for nothing more: the key was revoked, or the session ended.
    pub(crate) fn is_over(&self) -> bool {
        self.caller.is_over() && !self.thread.config.allow_all_keys
    }

    /// Estimates how many tokens the prompt has.
    pub(crate) fn prompt_estimate(&self) -> u64 {
        estimate_tokens(self.body_bytes)
    }

    /// Estimates how many tokens the engine wrote without being seen, from `since` on, or since it got the request. It
    /// is 0 if a stream waits for the engine.
    pub(crate) fn unseen(&self, since: Option<Instant>) -> u64 {
        let Some(flight) = &self.flight else { return 0 };
        if since.is_some() && flight.watch.is_waiting() {
            return 0;
        }
        let time = since.unwrap_or(flight.since).elapsed();
        self.estimate.written(time, self.stats().rate())
    }

    /// Returns the token counts for the row: the engine's if they are plausible for an answer of `bytes`, else
    /// estimates. `sent` is the gateway's estimate of the completion; `exact` is false if a part of `counts` is
    /// estimated already.
    pub(crate) fn reconcile_tokens(
        &self,
        counts: Option<Counts>,
        exact: bool,
        bytes: u64,
        sent: u64,
    ) -> Tokens {
        let Some(counts) = counts else { return Tokens::Estimated { completion: sent } };
        let whole =
            exact && counts.prompt.is_some() && (counts.completion.is_some() || !self.estimate.generates());
        let prompt = counts.prompt.unwrap_or_else(|| self.prompt_estimate() as i64);
        let unsaid = if self.estimate.generates() { sent } else { 0 };
        let completion = counts.completion.unwrap_or(unsaid as i64);
        if !self.estimate.may_read(prompt.unsigned_abs())
            || !self.estimate.may_write(completion.unsigned_abs(), bytes)
        {
            return Tokens::Estimated { completion: sent };
        }
        let used = TokensUsed { prompt, completion, cached: counts.cached.map(|it| it.min(prompt)) };
        if whole { Tokens::Counted(used) } else { Tokens::HalfCounted(used) }
    }

    /// Ends the request: row, breaker, limits and counters. Only the first call does anything.
    pub(crate) fn finish(&mut self, end: &End) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let now = Instant::now();
        let latency = now.duration_since(self.started);
        let row = self.row(end, latency);
        let has_own_row = if self.flight.is_some() {
            self.thread.record_final(&row);
            true
        } else {
            let known = matches!(self.name, Name::Routed(_));
            let bounds = self.caller.refusals(&self.thread.shared);
            self.thread.record_refused(bounds, &row, known, self.client, now)
        };
        self.thread.count(self.stats(), end.outcome, &row, latency, end.ttft);
        if let (Outcome::Ok, Tokens::Counted(used), Some(flight)) = (end.outcome, end.tokens, &self.flight)
            && self.estimate.generates()
        {
            // The time from the first token on, if it is known when that came.
            let took = end
                .ttft
                .map_or_else(|| now.duration_since(flight.since), |ttft| latency.saturating_sub(ttft));
            self.stats().note_rate(used.completion.unsigned_abs() / self.estimate.answers(), took);
        }
        self.thread.shared.counters.in_flight.fetch_sub(1, Relaxed);
        let used = u64::try_from(row.prompt_tokens.saturating_add(row.completion_tokens)).unwrap_or(0);
        if let Some(ticket) = &self.ticket {
            ticket.spend(used, self.created_at);
        }
        if has_own_row {
            self.write_access_line(end, &row, latency);
        }
        self.write_span(end, &row, latency);
        if let Some(ticket) = self.ticket.take() {
            ticket.settle(&self.thread.shared.limiter, used, now);
        }
        if let (Some(flight), Tokens::Counted(counts)) = (&self.flight, end.tokens)
            && !self.stream
            && end.outcome == Outcome::Ok
        {
            flight.watch.counted(u64::try_from(counts.completion).unwrap_or(0));
        }
        if let Some(mut flight) = self.flight.take()
            && let (Some(pass), Some(verdict)) = (flight.pass.take(), end.verdict)
        {
            pass.finish(verdict, now);
        }
    }

    /// Whether [`Meter::finish`] was called.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Writes its line in the access log.
    fn write_access_line(&self, end: &End, row: &RowRef<'_>, latency: Duration) {
        if !self.thread.access.wants(end.status) {
            return;
        }
        self.thread.access.write(&Line {
            at: self.created_at,
            method: "POST",
            path: self.endpoint.path(),
            status: end.status,
            latency,
            client: Some(self.client),
            requests: 1,
            request_id: row.req_id,
            trace_id: self.trace.id(),
            inference: Some(Inference {
                model: row.model_name,
                outcome: end.outcome.as_str(),
                stream: row.stream,
                ttft: end.ttft,
                prompt_tokens: row.prompt_tokens,
                completion_tokens: row.completion_tokens,
                key_prefix: row.key_prefix,
            }),
        });
    }

    /// Writes its span.
    fn write_span(&self, end: &End, row: &RowRef<'_>, latency: Duration) {
        let facts = Facts {
            started: self.created_at,
            duration: latency,
            method: Method::POST,
            route: self.endpoint.path(),
            path: self.endpoint.path().into(),
            status: end.status,
            client: self.client,
            request_id: row.req_id,
        };
        let engine = match &self.name {
            Name::Routed(route) => route.engine,
            Name::Unknown | Name::Requested(_) => None,
        };
        self.thread.spans.write(&self.trace, facts, || {
            Some(Call {
                endpoint: self.endpoint,
                model: row.model_name.into(),
                engine,
                outcome: end.outcome,
                stream: row.stream,
                ttft: end.ttft,
                prompt_tokens: row.prompt_tokens,
                cached_tokens: row.cached_tokens,
                completion_tokens: row.completion_tokens,
                estimated: row.estimated,
            })
        });
    }

    /// Returns the counters of its model's requests.
    pub(crate) fn stats(&self) -> &ModelStats {
        match &self.name {
            Name::Routed(route) => &route.stats,
            Name::Unknown | Name::Requested(_) => &self.thread.shared.stats.other,
        }
    }

    /// Returns the status and outcome of a request that was dropped.
    pub(crate) fn abandoned(&self) -> (u16, Outcome) {
        if std::thread::panicking() {
            (500, Outcome::UpstreamError)
        } else if self.thread.phase() == ShutdownPhase::Cut {
            (503, Outcome::UpstreamError)
        } else {
            (STATUS_CLIENT_CLOSED, Outcome::ClientClosed)
        }
    }

    fn row(&self, end: &End, latency: Duration) -> RowRef<'_> {
        let (prompt_tokens, completion_tokens, cached_tokens, estimated) = match end.tokens {
            Tokens::None => (0, 0, None, false),
            Tokens::Counted(used) => (used.prompt, used.completion, used.cached, false),
            Tokens::HalfCounted(used) => (used.prompt, used.completion, used.cached, true),
            Tokens::Estimated { .. } if !self.endpoint.runs_model() => (0, 0, None, false),
            Tokens::Estimated { completion } => {
                (self.prompt_estimate() as i64, completion as i64, None, true)
            }
        };
        let millis = |it: Duration| i64::try_from(it.as_millis()).unwrap_or(i64::MAX);
        let task_of_model = || match &self.name {
            Name::Routed(route) => route.task,
            Name::Unknown | Name::Requested(_) => Task::Generate,
        };
        RowRef {
            id: self.id,
            req_id: headers::text(&self.request_id),
            created_at: self.created_at,
            key_id: self.caller.key_id(),
            key_prefix: self.caller.key().map(|it| &*it.prefix),
            user_id: self.caller.user_id(),
            org_id: self.caller.org_id(),
            model_name: match &self.name {
                Name::Unknown => "",
                Name::Requested(name) => name,
                Name::Routed(route) => &route.served_name,
            },
            task: self.endpoint.task().unwrap_or_else(task_of_model),
            endpoint: self.endpoint,
            stream: self.stream,
            prompt_tokens,
            completion_tokens,
            cached_tokens,
            estimated,
            latency_ms: millis(latency),
            ttft_ms: end.ttft.map(millis),
            status_code: end.status,
            outcome: end.outcome,
            requests: 1,
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (status, outcome) = self.abandoned();
        let tokens = match self.flight {
            // The head of a stream comes with its first token, and that of a plain answer after its last.
            Some(_) => Tokens::Estimated { completion: if self.stream { 0 } else { self.unseen(None) } },
            None => Tokens::None,
        };
        self.finish(&End { status, outcome, tokens, ttft: None, verdict: None });
    }
}
