//! The one usage row of a request. A [`Meter`] is made when authentication has passed and ends exactly once: by
//! [`Meter::finish`], or by being dropped, which means that the client left (or that the gateway has a bug).

use std::{
    net::IpAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_domain::{
    ApiError, Timestamp,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, STATUS_CLIENT_CLOSED},
};
use http::{HeaderValue, Method};
use uuid::Uuid;

use crate::{
    ModelStats, Route, Upstream,
    access::{Inference, Line},
    answer,
    auth::Caller,
    breaker::{Pass, Verdict},
    limits::{self, Demand, Ticket},
    progress::Watch,
    spans::{Call, Facts},
    spool::RowRef,
    tokens::Counts,
    trace::Trace,
    worker::{Phase, Worker},
};

/// Rows carry so much of a name that clients made up.
const MAX_NAME_CHARS: usize = 200;
/// For estimates: bytes of English text per token, roughly, with today's vocabularies.
const BYTES_PER_TOKEN: u64 = 4;

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub status: u16,
    pub outcome: Outcome,
    pub tokens: Tokens,
    pub ttft: Option<Duration>,
    /// What it says about the engine; `None` if nothing.
    pub verdict: Option<Verdict>,
}

/// Token counts of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tokens {
    /// No engine worked on it.
    None,
    /// The engine's counts.
    Counted(Counts),
    /// The engine's count of the prompt, the gateway's of what came of the completion.
    HalfCounted(Counts),
    /// Prompt from the size of the body, completion as given.
    Estimated { completion: u64 },
}

/// About how many tokens so many bytes of text are.
pub(crate) fn estimate(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
}

enum Name {
    Unknown,
    Requested(Box<str>),
    Routed(Arc<Route>),
}

/// See the module.
pub(crate) struct Meter {
    pub worker: Rc<Worker>,
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
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.upstream.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Meter {
    pub(crate) fn new(
        worker: Rc<Worker>,
        (id, created_at): (Uuid, Timestamp),
        (request_id, trace, client): (HeaderValue, Trace, IpAddr),
        caller: Caller,
        endpoint: Endpoint,
    ) -> Box<Self> {
        worker.shared.counters.in_flight.fetch_add(1, Relaxed);
        Box::new(Self {
            worker,
            id,
            request_id,
            trace,
            client,
            caller,
            endpoint,
            started: Instant::now(),
            stream: false,
            body_bytes: 0,
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

    /// Whether its engine is one that the gateway started.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(&self.name, Name::Routed(route) if route.engine.is_some())
    }

    /// Takes a place among the running requests of the caller.
    ///
    /// # Errors
    /// 429: it has none left.
    pub(crate) fn enter(&mut self) -> Result<(), ApiError> {
        if let Some(guard) = self.caller.guard() {
            self.ticket = Some(limits::enter(&self.worker.shared.limiter, guard, self.started)?);
        }
        Ok(())
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.ticket.is_some()
    }

    /// Takes all else that the request needs of its caller's limits.
    ///
    /// # Errors
    /// 429: the limit that refuses it.
    pub(crate) fn admit(&mut self, demand: Demand) -> Result<(), ApiError> {
        let at = (self.started, self.created_at);
        match &mut self.ticket {
            Some(ticket) => ticket.admit(&self.worker.shared.limiter, demand, at),
            None => Ok(()),
        }
    }

    /// Writes the intent; the request may go to the engine then.
    ///
    /// # Errors
    /// It can't be metered.
    pub(crate) fn depart(
        &mut self,
        upstream: Arc<Upstream>,
        pass: Pass,
        watch: Watch,
    ) -> std::io::Result<()> {
        let interrupted = End {
            status: 500,
            outcome: Outcome::UpstreamError,
            tokens: Tokens::Estimated { completion: 0 },
            ttft: None,
            verdict: None,
        };
        self.worker.record_intent(&self.row(&interrupted, Duration::ZERO))?;
        upstream.in_flight.fetch_add(1, Relaxed);
        self.flight = Some(Flight { upstream, pass: Some(pass), watch });
        Ok(())
    }

    pub(crate) fn upstream(&self) -> Option<&Arc<Upstream>> {
        self.flight.as_ref().map(|it| &it.upstream)
    }

    /// The engine sent something.
    pub(crate) fn heard(&self, now: Instant) {
        if let Some(flight) = &self.flight {
            flight.watch.heard(now);
        }
    }

    /// Nothing is there from the engine that could be passed on.
    pub(crate) fn waits(&self) {
        if let Some(flight) = &self.flight
            && !flight.watch.is_waiting()
        {
            flight.watch.waits(Instant::now());
        }
    }

    /// Ends the request: row, breaker, limits and counters. Only the first call does anything.
    pub(crate) fn finish(&mut self, end: &End) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let now = Instant::now();
        let latency = now.duration_since(self.started);
        let row = self.row(end, latency);
        self.worker.record_final(&row);
        self.worker.count(self.stats(), end.outcome, &row, latency, end.ttft);
        self.worker.shared.counters.in_flight.fetch_sub(1, Relaxed);
        let used = u64::try_from(row.prompt_tokens.saturating_add(row.completion_tokens)).unwrap_or(0);
        if let Some(ticket) = &self.ticket {
            ticket.spend(used, self.created_at);
        }
        self.tell(end, &row, latency);
        self.record(end, &row, latency);
        if let Some(ticket) = self.ticket.take() {
            ticket.settle(&self.worker.shared.limiter, used, now);
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

    /// Its line in the access log.
    fn tell(&self, end: &End, row: &RowRef<'_>, latency: Duration) {
        if !self.worker.access.wants(end.status) {
            return;
        }
        self.worker.access.write(&Line {
            at: self.created_at,
            method: "POST",
            path: self.endpoint.path(),
            status: end.status,
            latency,
            client: self.client,
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

    /// Its span.
    fn record(&self, end: &End, row: &RowRef<'_>, latency: Duration) {
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
        self.worker.spans.write(&self.trace, facts, || {
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

    /// Where its model's requests are counted.
    pub(crate) fn stats(&self) -> &ModelStats {
        match &self.name {
            Name::Routed(route) => &route.stats,
            Name::Unknown | Name::Requested(_) => &self.worker.shared.stats.other,
        }
    }

    /// The end of a request that was dropped.
    pub(crate) fn abandoned(&self) -> (u16, Outcome) {
        if std::thread::panicking() {
            (500, Outcome::UpstreamError)
        } else if self.worker.phase() == Phase::Cut {
            (503, Outcome::UpstreamError)
        } else {
            (STATUS_CLIENT_CLOSED, Outcome::ClientClosed)
        }
    }

    fn row(&self, end: &End, latency: Duration) -> RowRef<'_> {
        let (prompt_tokens, completion_tokens, cached_tokens, estimated) = match end.tokens {
            Tokens::None => (0, 0, None, false),
            Tokens::Counted(counts) => (counts.prompt, counts.completion, counts.cached, false),
            Tokens::HalfCounted(counts) => (counts.prompt, counts.completion, counts.cached, true),
            Tokens::Estimated { .. } if !self.endpoint.runs_model() => (0, 0, None, false),
            Tokens::Estimated { completion } => {
                (estimate(self.body_bytes) as i64, completion as i64, None, true)
            }
        };
        let millis = |it: Duration| i64::try_from(it.as_millis()).unwrap_or(i64::MAX);
        let task_of_model = || match &self.name {
            Name::Routed(route) => route.task,
            Name::Unknown | Name::Requested(_) => Task::Generate,
        };
        RowRef {
            id: self.id,
            req_id: answer::text(&self.request_id),
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
            Some(_) => Tokens::Estimated { completion: 0 },
            None => Tokens::None,
        };
        self.finish(&End { status, outcome, tokens, ttft: None, verdict: None });
    }
}
