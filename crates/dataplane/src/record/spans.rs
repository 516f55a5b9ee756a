//! Spans: what a tracing system learns of a request, without anything of its content. Each thread keeps them in a
//! buffer and hands them over in whole blocks twice a second: a request neither waits nor wakes another thread.

use std::{
    borrow::Cow,
    cell::RefCell,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gantry_domain::{Timestamp, endpoint::Endpoint, model::EngineKind, usage::Outcome};
use http::{HeaderValue, Method};
use tokio::sync::mpsc::Sender;

pub use crate::record::trace::Sampler;
use crate::record::trace::Trace;

/// Number of spans at which a block is handed over without waiting for the next tick.
const BLOCK: usize = 256;

/// A request that ended.
#[derive(Debug)]
pub struct Span {
    pub trace: u128,
    pub id: u64,
    /// The client's span.
    pub parent: Option<u64>,
    /// The `tracestate` of the request, as it came.
    pub state: Option<Box<str>>,
    /// The flags of `traceparent`.
    pub flags: u8,
    pub started: Timestamp,
    pub duration: Duration,
    pub method: Method,
    /// The path with names replaced by `{…}`.
    pub route: &'static str,
    pub path: Cow<'static, str>,
    /// 499 for a client that left.
    pub status: u16,
    pub client: IpAddr,
    pub request_id: Box<str>,
    pub call: Option<Call>,
}

/// The model call of a request, and its result.
#[derive(Debug)]
pub struct Call {
    pub endpoint: Endpoint,
    /// The model's name as the client gave it; empty if it gave none.
    pub model: Box<str>,
    /// The kind of engine; `None` if it is not known, because it was entered by hand or the request was never routed.
    pub engine: Option<EngineKind>,
    pub outcome: Outcome,
    pub stream: bool,
    pub ttft: Option<Duration>,
    pub prompt_tokens: i64,
    pub cached_tokens: Option<i64>,
    pub completion_tokens: i64,
    /// The counts are the gateway's own estimates.
    pub estimated: bool,
}

/// The destination of spans. A block that the receiver has no room for is dropped.
#[derive(Debug, Clone)]
pub struct Spans {
    pub sampler: Sampler,
    pub to: Sender<Vec<Span>>,
    /// Spans that were dropped.
    pub dropped: Arc<AtomicU64>,
}

/// The facts that all requests with a span have.
pub(crate) struct Facts<'a> {
    pub started: Timestamp,
    pub duration: Duration,
    pub method: Method,
    pub route: &'static str,
    pub path: Cow<'static, str>,
    pub status: u16,
    pub client: IpAddr,
    pub request_id: &'a str,
}

/// The buffer of one thread.
#[derive(Debug)]
pub(crate) struct SpanBuffer {
    spans: Option<Spans>,
    block: RefCell<Vec<Span>>,
}

impl SpanBuffer {
    pub(crate) fn new(spans: Option<Spans>) -> Self {
        Self { spans, block: RefCell::default() }
    }

    /// `None` if nothing is exported.
    pub(crate) fn sampler(&self) -> Option<Sampler> {
        self.spans.as_ref().map(|it| it.sampler)
    }

    /// Notes a request if its trace is recorded.
    pub(crate) fn write(&self, trace: &Trace, facts: Facts<'_>, call: impl FnOnce() -> Option<Call>) {
        let Some(own) = trace.own else { return };
        let text = |it: &HeaderValue| it.to_str().ok().map(Into::into);
        let Facts { started, duration, method, route, path, status, client, request_id } = facts;
        let span = Span {
            trace: own.trace,
            id: own.id,
            parent: own.parent,
            state: trace.state.as_ref().and_then(text),
            flags: own.flags,
            started,
            duration,
            method,
            route,
            path,
            status,
            client,
            request_id: request_id.into(),
            call: call(),
        };
        let mut block = self.block.borrow_mut();
        block.push(span);
        let full = block.len() >= BLOCK;
        drop(block);
        if full {
            self.flush();
        }
    }

    /// Hands over the buffer.
    pub(crate) fn flush(&self) {
        let Some(spans) = &self.spans else { return };
        let block = self.block.take();
        let n = block.len() as u64;
        if n > 0 && spans.to.try_send(block).is_err() {
            spans.dropped.fetch_add(n, Relaxed);
        }
    }
}
