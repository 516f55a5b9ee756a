//! A request that may go to an engine.

use std::{ops::Range, sync::Arc, time::Instant};

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint};
use http::HeaderMap;

use crate::{
    catalog::Route,
    record::{
        departed::{Departed, Unmetered},
        meter::Meter,
    },
    request::{
        patch,
        peek::{Peek, UsageSlot},
        token_estimate::TokenEstimate,
    },
    response::refusal::Refused,
    upstream::{
        choose::{self, Untried},
        exchange::EngineCall,
        forward::EngineHeaders,
    },
};

/// A request that its caller's limits let through, to a model that is up.
pub(crate) struct Admitted {
    meter: Box<Meter>,
    route: Arc<Route>,
    estimate: TokenEstimate,
    edits: Edits,
}

/// What may be changed in a body before an engine gets it.
pub(crate) struct Edits {
    model_at: Range<usize>,
    /// Where the engine is asked for the usage event of a stream; `None` if the answer can't have one.
    usage_slot: Option<UsageSlot>,
    /// Only the gateway asks for the usage event, so it is removed from the answer.
    strip: bool,
}

impl Edits {
    pub(super) fn new(peek: &Peek<'_>, endpoint: Endpoint, stream: bool) -> Self {
        let asks = stream && endpoint.has_stream_options();
        Self {
            model_at: peek.model_at.clone(),
            usage_slot: asks.then(|| peek.usage_slot.clone()),
            strip: asks && !peek.include_usage,
        }
    }

    fn apply(&self, body: Bytes, route: &Route, endpoint: Endpoint) -> Bytes {
        let usage = self.usage_slot.as_ref().and_then(patch::include_usage);
        let name = route.upstream_model.as_deref();
        let model = name.map(|name| patch::name_model(self.model_at.clone(), name));
        let body = patch::apply(body, [model, usage]);
        match &route.request_defaults {
            Some(defaults) if endpoint.takes_defaults() => defaults.splice(body),
            _ => body,
        }
    }
}

impl Admitted {
    pub(super) fn new(meter: Box<Meter>, route: Arc<Route>, estimate: TokenEstimate, edits: Edits) -> Self {
        Self { meter, route, estimate, edits }
    }

    /// Gets an engine's permission, and writes the intent. `headers` and `query` are the client's.
    ///
    /// # Errors
    /// 502: no engine admits the request. 503: it could not be metered.
    pub(crate) fn depart(
        self,
        body: Bytes,
        headers: &mut HeaderMap,
        query: Option<&str>,
    ) -> Result<(Departed, EngineCall), Refused> {
        let Self { meter, route, estimate, edits } = self;
        let now = Instant::now();
        let engines = route.target.upstreams();
        let mut untried = Untried::all(engines.len(), meter.head.id.as_u128());
        let entrant = choose::entrant(meter.caller.id(), meter.streams(), &estimate, &route);
        let permit = match untried.enter(engines, &entrant, now) {
            Ok(permit) => permit,
            Err(error) => return Err(Refused::new(meter, error)),
        };
        let departed = Departed::new(meter, route, estimate, permit, now).map_err(unmetered)?;
        let meter = &departed.meter;
        let body = edits.apply(body, &departed.route, meter.head.endpoint);
        let headers = EngineHeaders::new(headers, query, &meter.origin, &meter.thread.config.via);
        Ok((departed, EngineCall { headers, body, untried, strip: edits.strip }))
    }
}

fn unmetered(Unmetered { meter, error }: Unmetered) -> Refused {
    tracing::error!(%error, "requests are refused, because their usage can't be recorded");
    let error = ApiError::new(ErrorCode::MeteringUnavailable, "usage can't be recorded now");
    Refused::new(meter, error.retry_after(5))
}
