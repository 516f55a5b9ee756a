//! The body of an engine's answer on its way to the client: it passes as it comes, is read for token counts, and ends
//! the [`Departed`] request before its last byte leaves. For a stream, this is before its last event, by which clients
//! know that the answer is complete.

use std::{
    io,
    pin::Pin,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use gantry_domain::{
    ApiError, ErrorCode,
    endpoint::{Counted, Endpoint},
    model::Task,
    usage::Outcome,
};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::{
    config::BoxError,
    record::{
        departed::{Departed, End, Tokens},
        stats::Gaps,
    },
    request::{
        deadline::{Deadline, Over},
        token_estimate::estimate_tokens,
    },
    response::{
        choice_lengths::ChoiceLengths,
        errors::{self, shutting_down},
        sse::{Events, StreamKind},
        tokens::{UsageOf, UsageScanner},
    },
    upstream::{breaker::Verdict, fallback::reply::Chunks, keeping::After, pool::EngineConnection},
};

/// What the head of the answer said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framing {
    pub status: u16,
    /// Server-sent events.
    pub events: bool,
    /// The end of the body is marked; otherwise only the closed connection shows it, and a stream needs its `[DONE]`.
    pub delimited: bool,
    /// Take the usage event out.
    pub strip: bool,
    /// What one usage object of the engine covers.
    pub usage_of: UsageOf,
    /// Longest time between two frames.
    pub idle: Duration,
}

/// The body of an engine's answer on its way to the client.
pub(crate) struct Tap {
    departed: Departed,
    /// Gone once the answer is complete or broken.
    link: Option<Box<EngineConnection>>,
    body: Incoming,
    deadline: Deadline,
    framing: Framing,
    scanner: UsageScanner,
    /// Lengths of all choices, when the engine counts only the first.
    choices: Option<Box<ChoiceLengths>>,
    /// The beginning of a plain answer, as long as no usage was found in it: its texts are what is left to estimate by.
    beginning: Vec<Bytes>,
    /// Set for a stream.
    events: Option<Events>,
    /// The stream is one of completions and has to look like a chat.
    chunks: Option<Box<Chunks>>,
    first: Option<Instant>,
    /// When its last piece came.
    last: Option<Instant>,
    gaps: Gaps,
    bytes: u64,
}

/// Longest beginning that is kept, in bytes.
const MAX_BEGINNING: u64 = 64 << 10;

type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

impl Tap {
    pub(crate) fn new(
        departed: Departed,
        link: Box<EngineConnection>,
        body: Incoming,
        mut deadline: Deadline,
        framing: Framing,
    ) -> Box<Self> {
        deadline.restart(framing.idle);
        let kind = match (framing.strip, departed.meter.head.endpoint.names_events()) {
            (_, true) => StreamKind::Named,
            (true, false) => StreamKind::ChoicesOnly,
            (false, false) => StreamKind::Choices,
        };
        if framing.events {
            departed.meter.thread.shared.counters.streams.fetch_add(1, Relaxed);
        }
        let scanner = UsageScanner::of(departed.meter.head.endpoint, framing.events, framing.usage_of);
        let several = framing.usage_of == UsageOf::Choice
            && departed.meter.head.endpoint.has_stream_options()
            && departed.estimate.answers() > 1;
        Box::new(Self {
            departed,
            link: Some(link),
            body,
            deadline,
            framing,
            scanner,
            choices: (several && !framing.events).then(Box::default),
            beginning: Vec::new(),
            events: framing.events.then(|| Events::new(kind)),
            chunks: None,
            first: None,
            last: None,
            gaps: Gaps::default(),
            bytes: 0,
        })
    }

    /// Turns a stream of completions into one of a chat.
    pub(crate) fn reshape(&mut self, chunks: Box<Chunks>) {
        self.chunks = Some(chunks);
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        // An event may be removed from a stream, or added.
        if self.events.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Polled {
        loop {
            let Some(link) = &mut self.link else { return Poll::Ready(None) };
            link.drive(cx);
            // Only the connection brings frames, and it was polled right before: no waker is needed.
            let polled = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let out = self.pass(data);
                    // hyper does not poll a body again once all announced bytes have come.
                    if self.body.is_end_stream() && self.framing.delimited {
                        let rest = self.complete();
                        return ready(join(out, rest));
                    }
                    if !out.is_empty() {
                        return ready(out);
                    }
                }
                // Nothing came, although the head announced an answer.
                Poll::Ready(None) if self.bytes == 0 => {
                    return self.broken(&io::Error::from(io::ErrorKind::UnexpectedEof));
                }
                Poll::Ready(None)
                    if self.framing.delimited || self.events.as_ref().is_none_or(Events::is_done) =>
                {
                    let rest = self.complete();
                    return if rest.is_empty() { Poll::Ready(None) } else { ready(rest) };
                }
                Poll::Ready(None) => return self.broken(&io::Error::from(io::ErrorKind::UnexpectedEof)),
                Poll::Ready(Some(Err(error))) if self.is_whole() => {
                    tracing::debug!(%error, id = %self.departed.meter.head.id, "the engine broke off behind a whole answer");
                    return self.close();
                }
                Poll::Ready(Some(Err(error))) => return self.broken(&error),
                Poll::Pending => {
                    self.departed.waits();
                    if self.events.is_some() && self.departed.meter.is_over() && !self.is_whole() {
                        return self.forbidden();
                    }
                    return match self.deadline.poll(cx) {
                        Poll::Pending => Poll::Pending,
                        Poll::Ready(_) if self.is_whole() => self.close(),
                        Poll::Ready(Over::TimedOut) => self.timed_out(),
                        Poll::Ready(Over::Cut) => self.cut(),
                    };
                }
            }
        }
    }

    fn pass(&mut self, data: Bytes) -> Bytes {
        let now = Instant::now();
        self.departed.heard(now);
        self.first.get_or_insert(now);
        if let Some(last) = self.last.replace(now) {
            self.gaps.record(now.duration_since(last));
        }
        self.deadline.set(now + self.framing.idle);
        self.bytes += data.len() as u64;
        self.scanner.feed(&data);
        if let Some(choices) = &mut self.choices {
            choices.feed(&data);
        }
        let out = if let Some(events) = &mut self.events {
            events.push(data)
        } else {
            self.keep(&data);
            data
        };
        if self.is_whole() {
            self.end_whole();
        }
        match &mut self.chunks {
            Some(chunks) => chunks.push(&out),
            None => out,
        }
    }

    fn keep(&mut self, data: &Bytes) {
        if self.scanner.found().is_some() {
            self.beginning.clear();
        } else if self.bytes <= MAX_BEGINNING && self.departed.estimate.generates() {
            self.beginning.push(data.clone());
        }
    }

    /// Returns the length of the texts of a plain answer, in bytes; beyond its beginning, of all that came.
    fn text_bytes(&self) -> u64 {
        let (mut texts, mut read) = (ChoiceLengths::default(), 0);
        for piece in &self.beginning {
            texts.feed(piece);
            read += piece.len() as u64;
        }
        let known = texts.text_bytes() + self.bytes.saturating_sub(read);
        // Nothing better than its length is known of an answer that is no JSON.
        if known == 0 { self.bytes } else { known }
    }

    /// Returns whether the last event of a stream is there, even if the end of the body is not: whatever happens to the
    /// connections from now on, the client has the whole answer.
    fn is_whole(&self) -> bool {
        self.events.as_ref().is_some_and(|it| it.is_done() && it.at_boundary())
    }

    /// Ends a whole answer whose connection can't be used again.
    fn close(&mut self) -> Polled {
        self.link = None;
        let rest = self.complete();
        if rest.is_empty() { Poll::Ready(None) } else { ready(rest) }
    }

    /// Ends an answer that has come completely, and returns what was held back of it.
    fn complete(&mut self) -> Bytes {
        let mut rest = self.events.as_mut().map(Events::finish).unwrap_or_default();
        if let Some(chunks) = &mut self.chunks {
            rest = join(chunks.push(&rest), chunks.finish());
        }
        if let Some(link) = self.link.take() {
            let after = if self.framing.events { After::Stream } else { After::Whole };
            self.departed.meter.thread.pool.put(&self.departed.upstream, link, after, Instant::now());
        }
        self.end_whole();
        rest
    }

    fn end_whole(&mut self) {
        let failed = self.events.as_ref().is_some_and(Events::has_failed);
        let outcome = if failed { Outcome::UpstreamError } else { Outcome::Ok };
        self.end(self.framing.status, outcome, Some(Verdict::Success), 0);
    }

    fn forbidden(&mut self) -> Polled {
        let message = "the key or session that asked for this stream has been ended";
        self.stop(&ApiError::new(ErrorCode::InvalidApiKey, message), Outcome::ClientError, None)
    }

    fn broken(&mut self, error: &dyn std::error::Error) -> Polled {
        tracing::debug!(%error, id = %self.departed.meter.head.id, "the engine broke off");
        let (shown, verdict) = self.departed.broke_off("the model's engine broke off its answer");
        self.stop(&shown, Outcome::UpstreamError, verdict)
    }

    fn timed_out(&mut self) -> Polled {
        let shown = ApiError::new(ErrorCode::UpstreamTimeout, "the model's engine fell silent");
        self.stop(&shown, Outcome::Timeout, Some(Verdict::Failure))
    }

    fn cut(&mut self) -> Polled {
        self.stop(&shutting_down(), Outcome::UpstreamError, None)
    }

    /// Ends an answer that is not complete: a stream with an event that says why, anything else by closing the
    /// client's connection, as nothing else would tell it that bytes are missing.
    fn stop(&mut self, shown: &ApiError, outcome: Outcome, verdict: Option<Verdict>) -> Polled {
        self.link = None;
        self.end(shown.code.status(), outcome, verdict, 0);
        let Some(events) = &self.events else { return Poll::Ready(Some(Err(shown.message.clone().into()))) };
        let blank = if events.at_boundary() || self.chunks.is_some() { "" } else { "\n\n" };
        let event = errors::error_event(
            self.departed.meter.head.endpoint,
            shown,
            &self.departed.meter.origin.request_id,
        );
        ready(format!("{blank}{event}").into())
    }

    /// Ends the request's meter. `unseen` is an estimate of the tokens that the engine wrote and that did not come
    /// here.
    fn end(&mut self, status: u16, outcome: Outcome, verdict: Option<Verdict>, unseen: u64) {
        if self.departed.has_ended() {
            return;
        }
        let ttft = self
            .first
            .filter(|_| self.events.is_some())
            .map(|it| it.duration_since(self.departed.meter.started));
        let tokens = self.tokens(unseen);
        if self.events.is_some() {
            std::mem::take(&mut self.gaps).add_to(&self.departed.route.stats.gaps);
        }
        self.departed.finish(&End { status, outcome, tokens, ttft, verdict });
    }

    fn tokens(&self, unseen: u64) -> Tokens {
        let (estimate, sent) = (&self.departed.estimate, self.sent(unseen));
        let (mut counts, mut exact) = (self.scanner.found(), true);
        if let Some(counts) = &mut counts {
            if let Some(n) = self.scanner.n_counted() {
                // The engine reads a prompt once for all answers to it, but reports its tokens with each of them.
                let once = |sum: i64| {
                    let share = i128::from(sum) * i128::from(estimate.prompts) / i128::from(n.max(1));
                    i64::try_from(share).unwrap_or(i64::MAX)
                };
                (counts.prompt, counts.cached) = (counts.prompt.map(once), counts.cached.map(once));
                if n < estimate.answers() {
                    (counts.completion, exact) = (counts.completion.max(Some(sent as i64)), false);
                }
            } else if let (Some(choices), Some(first)) = (&self.choices, counts.completion)
                && let Some((all, is_exact)) = choices.total(first, estimate)
            {
                (counts.completion, exact) = (Some(all), is_exact);
                counts.prompt =
                    counts.prompt.map(|it| it.saturating_add_unsigned(estimate.further_prompts()));
            } else if self.departed.meter.head.endpoint.counted() == Counted::EveryUsage
                && counts.completion.is_none_or(|it| it == 0)
                && self.n_content() > 0
            {
                // A stream of messages begins with the count of its prompt and ends with that of its completion.
                counts.completion = None;
            }
        }
        self.departed.reconcile_tokens(counts, exact, self.bytes, sent)
    }

    fn n_content(&self) -> u64 {
        self.events.as_ref().map_or(0, Events::n_content)
    }

    /// Estimates how many tokens the completion has, if the engine does not report it.
    fn sent(&self, unseen: u64) -> u64 {
        match (&self.events, self.departed.meter.head.endpoint) {
            // The first event of each choice of a chat only has the role of the speaker.
            (Some(events), Endpoint::ChatCompletions) if self.chunks.is_none() => {
                events.n_content().saturating_sub(self.departed.estimate.answers()) + unseen
            }
            (Some(events), _) => events.n_content() + unseen,
            (None, endpoint) if endpoint.task() == Some(Task::Embed) => 0,
            (None, _) => estimate_tokens(self.text_bytes()).max(unseen),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.events.is_some() {
            self.departed.meter.thread.shared.counters.streams.fetch_sub(1, Relaxed);
        }
        if self.link.take().is_some() {
            let (status, outcome) = self.departed.meter.abandoned();
            let unseen = match (&self.events, self.last) {
                // This is what the engine sent and the client did not take.
                (Some(_), Some(last)) => self.departed.unseen(Some(last)),
                (Some(_), None) => 0,
                (None, _) => self.departed.unseen(None),
            };
            self.end(status, outcome, None, unseen);
        }
    }
}

fn ready(bytes: Bytes) -> Polled {
    Poll::Ready(Some(Ok(Frame::data(bytes))))
}

fn join(first: Bytes, second: Bytes) -> Bytes {
    match (first.is_empty(), second.is_empty()) {
        (_, true) => first,
        (true, false) => second,
        (false, false) => [first, second].concat().into(),
    }
}
