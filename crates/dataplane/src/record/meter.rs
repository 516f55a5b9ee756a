//! The one usage row of a request. A [`Meter`] is made when authentication has passed. It ends exactly once: by
//! [`Meter::refuse`], by the end of the [`super::departed::Departed`] that it becomes a part of, or by being dropped, which
//! means that the client left (or that the gateway has a bug).

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
    catalog::Route,
    limits::{self, Demand, Moment, Ticket},
    record::{
        access::{Inference, Line},
        spans::{Call, Facts},
        spool::RowRef,
        stats::ModelStats,
        trace::Trace,
    },
    request::auth::Caller,
    response::headers,
    thread_state::{ShutdownPhase, ThreadState},
};

/// Most characters of a name that a client made up in a row.
const MAX_NAME_CHARS: usize = 200;

/// What identifies a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestHead {
    pub id: Uuid,
    pub created_at: Timestamp,
    pub endpoint: Endpoint,
}

/// Where a request came from.
pub(crate) struct Origin {
    pub request_id: HeaderValue,
    pub trace: Trace,
    /// The address of the client, with proxies taken into account.
    pub client: IpAddr,
}

/// What is known of the model that a request is for; each stage that learns more replaces it.
pub(crate) enum Destination {
    /// The body was not read, or names no model.
    Unknown,
    /// The client's name for it leads nowhere.
    Unrouted {
        model: Box<str>,
        stream: bool,
    },
    Routed {
        route: Arc<Route>,
        stream: bool,
    },
}

impl Destination {
    pub(crate) fn unrouted(name: &str, stream: bool) -> Self {
        let end = name.char_indices().nth(MAX_NAME_CHARS).map_or(name.len(), |(at, _)| at);
        Self::Unrouted { model: name[..end].into(), stream }
    }

    fn route(&self) -> Option<&Route> {
        match self {
            Self::Routed { route, .. } => Some(route),
            Self::Unknown | Self::Unrouted { .. } => None,
        }
    }
}

/// How a request ended, for its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowEnd {
    pub status: u16,
    pub outcome: Outcome,
    pub ttft: Option<Duration>,
    pub tokens: RowTokens,
}

/// Token counts of a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowTokens {
    pub prompt: i64,
    pub completion: i64,
    /// Prompt tokens out of the prefix cache.
    pub cached: Option<i64>,
    pub estimated: bool,
}

/// Measures one request and writes its usage row.
pub(crate) struct Meter {
    pub thread: Rc<ThreadState>,
    pub head: RequestHead,
    pub origin: Origin,
    pub caller: Caller,
    pub started: Instant,
    destination: Destination,
    ticket: Option<Ticket>,
    ended: bool,
}

impl Meter {
    pub(crate) fn new(
        thread: Rc<ThreadState>,
        head: RequestHead,
        origin: Origin,
        caller: Caller,
    ) -> Box<Self> {
        thread.shared.counters.in_flight.fetch_add(1, Relaxed);
        Box::new(Self {
            thread,
            head,
            origin,
            caller,
            started: Instant::now(),
            destination: Destination::Unknown,
            ticket: None,
            ended: false,
        })
    }

    /// Notes what is known of the model from now on.
    pub(crate) fn leads_to(&mut self, destination: Destination) {
        self.destination = destination;
    }

    /// Whether the answer streams, as far as is known.
    pub(crate) fn streams(&self) -> bool {
        match self.destination {
            Destination::Unknown => false,
            Destination::Unrouted { stream, .. } | Destination::Routed { stream, .. } => stream,
        }
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
        let began = Moment::new(self.started, self.head.created_at);
        match &mut self.ticket {
            Some(ticket) => ticket.admit(&self.thread.shared.limiter, demand, began),
            None => Ok(()),
        }
    }

    /// Returns whether its caller may ask for nothing more: the key was revoked, or the session ended.
    pub(crate) fn is_over(&self) -> bool {
        self.caller.is_over() && !self.thread.config.allow_all_keys
    }

    /// Ends a request that went to no engine. Only the first call does anything.
    pub(crate) fn refuse(&mut self, status: u16, outcome: Outcome) {
        let end = RowEnd { status, outcome, ttft: None, tokens: RowTokens::default() };
        let now = Instant::now();
        self.close(&end, now, |meter, row| {
            let known = meter.destination.route().is_some();
            let quota = meter.caller.refusals(&meter.thread.shared);
            meter.thread.record_refused(quota, row, known, meter.origin.client, now)
        });
    }

    /// Ends the request: row, counters, log line, span and limits. Only the first call does anything. `record` writes the
    /// row, and returns whether the request has one of its own.
    pub(super) fn close(
        &mut self,
        end: &RowEnd,
        now: Instant,
        record: impl FnOnce(&Self, &RowRef<'_>) -> bool,
    ) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let latency = now.duration_since(self.started);
        let row = self.row(end, latency);
        let has_own_row = record(self, &row);
        self.thread.count(self.stats(), end.outcome, &row, latency, end.ttft);
        self.thread.shared.counters.in_flight.fetch_sub(1, Relaxed);
        let used = u64::try_from(row.prompt_tokens.saturating_add(row.completion_tokens)).unwrap_or(0);
        if let Some(ticket) = &self.ticket {
            ticket.spend(used, self.head.created_at);
        }
        if has_own_row {
            self.write_access_line(end, &row, latency);
        }
        self.write_span(end, &row, latency);
        if let Some(ticket) = self.ticket.take() {
            ticket.settle(&self.thread.shared.limiter, used, now);
        }
    }

    fn write_access_line(&self, end: &RowEnd, row: &RowRef<'_>, latency: Duration) {
        if !self.thread.access.wants(end.status) {
            return;
        }
        self.thread.access.write(&Line {
            at: self.head.created_at,
            method: "POST",
            path: self.head.endpoint.path(),
            status: end.status,
            latency,
            client: Some(self.origin.client),
            requests: 1,
            request_id: row.req_id,
            trace_id: self.origin.trace.id(),
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

    fn write_span(&self, end: &RowEnd, row: &RowRef<'_>, latency: Duration) {
        let facts = Facts {
            started: self.head.created_at,
            duration: latency,
            method: Method::POST,
            route: self.head.endpoint.path(),
            path: self.head.endpoint.path().into(),
            status: end.status,
            client: self.origin.client,
            request_id: row.req_id,
        };
        self.thread.spans.write(&self.origin.trace, facts, || {
            Some(Call {
                endpoint: self.head.endpoint,
                model: row.model_name.into(),
                engine: self.destination.route().and_then(|it| it.engine),
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
    fn stats(&self) -> &ModelStats {
        self.destination.route().map_or(&self.thread.shared.stats.other, |route| &route.stats)
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

    pub(super) fn row(&self, end: &RowEnd, latency: Duration) -> RowRef<'_> {
        let millis = |it: Duration| i64::try_from(it.as_millis()).unwrap_or(i64::MAX);
        let task_of_model = || self.destination.route().map_or(Task::Generate, |route| route.task);
        RowRef {
            id: self.head.id,
            req_id: headers::text(&self.origin.request_id),
            created_at: self.head.created_at,
            key_id: self.caller.key_id(),
            key_prefix: self.caller.key().map(|it| &*it.prefix),
            user_id: self.caller.user_id(),
            org_id: self.caller.org_id(),
            model_name: match &self.destination {
                Destination::Unknown => "",
                Destination::Unrouted { model, .. } => model,
                Destination::Routed { route, .. } => &route.served_name,
            },
            task: self.head.endpoint.task().unwrap_or_else(task_of_model),
            endpoint: self.head.endpoint,
            stream: self.streams(),
            prompt_tokens: end.tokens.prompt,
            completion_tokens: end.tokens.completion,
            cached_tokens: end.tokens.cached,
            estimated: end.tokens.estimated,
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
        if !self.ended {
            let (status, outcome) = self.abandoned();
            self.refuse(status, outcome);
        }
    }
}
