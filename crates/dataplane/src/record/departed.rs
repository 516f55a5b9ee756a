//! A request that an engine works on: its row, and what its end says about the engine.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint, model::State, usage::Outcome};

use crate::{
    catalog::{Route, RouteTarget},
    record::meter::{Meter, RowEnd, RowTokens},
    request::token_estimate::TokenEstimate,
    response::{errors::unavailable, tokens::Counts},
    upstream::{
        breaker::{Pass, Verdict},
        choose::{self, Permit},
        engine::Upstream,
        progress::{Entrant, Watch},
    },
};

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

/// What is known of the tokens that a request used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tokens {
    /// The engine worked on none.
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

/// A request that went to an engine. Its row is written when it ends, or when it is dropped.
pub(crate) struct Departed {
    pub meter: Box<Meter>,
    pub route: Arc<Route>,
    /// What it may use.
    pub estimate: TokenEstimate,
    /// The engine that has the request.
    pub upstream: Arc<Upstream>,
    /// `None` once the request has ended.
    flight: Option<Flight>,
}

/// The engine's work on a request.
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

    /// Ends it, with what that says about the engine.
    fn land(mut self, verdict: Option<Verdict>, now: Instant) {
        if let (Some(pass), Some(verdict)) = (self.pass.take(), verdict) {
            pass.finish(verdict, now);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.upstream.in_flight.fetch_sub(1, Relaxed);
    }
}

/// A request that can't go to its engine, because it could not be metered.
pub(crate) struct Unmetered {
    pub meter: Box<Meter>,
    pub error: io::Error,
}

impl Departed {
    /// Writes the intent. After that, the request may go to the engine.
    ///
    /// # Errors
    /// It can't be metered.
    pub(crate) fn new(
        meter: Box<Meter>,
        route: Arc<Route>,
        estimate: TokenEstimate,
        permit: Permit,
        now: Instant,
    ) -> Result<Self, Unmetered> {
        let tokens = row_tokens(Tokens::Estimated { completion: 0 }, meter.head.endpoint, &estimate);
        let interrupted = RowEnd { status: 500, outcome: Outcome::UpstreamError, ttft: None, tokens };
        if let Err(error) = meter.thread.record_intent(&meter.row(&interrupted, Duration::ZERO)) {
            return Err(Unmetered { meter, error });
        }
        let upstream = Arc::clone(&permit.upstream);
        Ok(Self { meter, route, estimate, upstream, flight: Some(Flight::begin(permit, now)) })
    }

    /// Moves the request to another engine, because the one that had it could not be reached.
    pub(crate) fn divert(&mut self, permit: Permit, now: Instant) {
        self.upstream = Arc::clone(&permit.upstream);
        if let Some(before) = self.flight.replace(Flight::begin(permit, now)) {
            before.land(Some(Verdict::Failure), now);
        }
    }

    /// Returns what an engine has to know to admit it.
    pub(crate) fn entrant(&self) -> Entrant {
        choose::entrant(self.meter.caller.id(), self.meter.streams(), &self.estimate, &self.route)
    }

    /// Returns the error for a client whose engine broke off, and the breaker's verdict. `message` is used if nothing
    /// more is known.
    pub(crate) fn broke_off(&self, message: &str) -> (ApiError, Option<Verdict>) {
        match self.ended_on_purpose() {
            Some(error) => (error, None),
            None => (unavailable(message), Some(Verdict::Failure)),
        }
    }

    /// Returns the error for a client whose engine was ended by the gateway itself; `None` if the engine broke off by
    /// itself.
    fn ended_on_purpose(&self) -> Option<ApiError> {
        // The gateway ends no engine that runs elsewhere.
        if matches!(self.route.target, RouteTarget::AnyOf(_)) {
            return None;
        }
        let catalog = self.meter.thread.shared.catalog.load();
        let stopped = "the model was stopped before its answer was complete";
        let applied = "the model was applied, and its engine stopped before its answer was complete";
        Some(match catalog.routes.get(&self.route.served_name).map(|it| &it.target) {
            Some(RouteTarget::Up(now)) if now.id == self.upstream.id => return None,
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

    /// Estimates how many tokens the engine wrote without being seen, from `since` on, or since it got the request. It
    /// is 0 if a stream waits for the engine.
    pub(crate) fn unseen(&self, since: Option<Instant>) -> u64 {
        let Some(flight) = &self.flight else { return 0 };
        if since.is_some() && flight.watch.is_waiting() {
            return 0;
        }
        let time = since.unwrap_or(flight.since).elapsed();
        self.estimate.written(time, self.route.stats.rate())
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
        let generates = self.estimate.generates();
        let whole = exact && counts.prompt.is_some() && (counts.completion.is_some() || !generates);
        let prompt = counts.prompt.unwrap_or_else(|| self.estimate.prompt_tokens() as i64);
        let unsaid = if generates { sent } else { 0 };
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
        let Some(flight) = self.flight.take() else { return };
        let now = Instant::now();
        let (status, outcome, ttft) = (end.status, end.outcome, end.ttft);
        let tokens = row_tokens(end.tokens, self.meter.head.endpoint, &self.estimate);
        self.meter.close(&RowEnd { status, outcome, ttft, tokens }, now, |meter, row| {
            meter.thread.record_final(row);
            true
        });
        if let (Outcome::Ok, Tokens::Counted(used)) = (outcome, end.tokens) {
            self.learn(&flight, used, ttft, now);
        }
        flight.land(end.verdict, now);
    }

    /// Learns from a good answer how fast the engine is.
    fn learn(&self, flight: &Flight, used: TokensUsed, ttft: Option<Duration>, now: Instant) {
        if self.estimate.generates() {
            // The time from the first token on, if it is known when that came.
            let took = ttft.map_or_else(
                || now.duration_since(flight.since),
                |ttft| now.duration_since(self.meter.started).saturating_sub(ttft),
            );
            self.route.stats.note_rate(used.completion.unsigned_abs() / self.estimate.answers(), took);
        }
        if !self.meter.streams() {
            flight.watch.counted(u64::try_from(used.completion).unwrap_or(0));
        }
    }

    /// Whether [`Departed::finish`] was called.
    pub(crate) fn has_ended(&self) -> bool {
        self.flight.is_none()
    }
}

impl Drop for Departed {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        let (status, outcome) = self.meter.abandoned();
        // The head of a stream comes with its first token, and that of a plain answer after its last.
        let completion = if self.meter.streams() { 0 } else { self.unseen(None) };
        let tokens = Tokens::Estimated { completion };
        self.finish(&End { status, outcome, tokens, ttft: None, verdict: None });
    }
}

fn row_tokens(tokens: Tokens, endpoint: Endpoint, estimate: &TokenEstimate) -> RowTokens {
    let of = |used: TokensUsed, estimated| RowTokens {
        prompt: used.prompt,
        completion: used.completion,
        cached: used.cached,
        estimated,
    };
    match tokens {
        Tokens::Counted(used) => of(used, false),
        Tokens::HalfCounted(used) => of(used, true),
        Tokens::Estimated { completion } if endpoint.runs_model() => RowTokens {
            prompt: estimate.prompt_tokens() as i64,
            completion: completion as i64,
            cached: None,
            estimated: true,
        },
        Tokens::None | Tokens::Estimated { .. } => RowTokens::default(),
    }
}
