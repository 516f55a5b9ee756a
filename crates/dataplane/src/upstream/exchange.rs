//! The exchange with engines: a request goes to one of its route, or to the next if that can't be reached, in the form
//! that the engine understands; the answer goes to the client.

use std::{sync::atomic::Ordering::Relaxed, time::Instant};

use bytes::Bytes;

use crate::{
    record::{counters::Retry, departed::Departed},
    request::deadline::Deadline,
    response::refusal::{EngineRefusal, read_refusal},
    upstream::{
        choose::Untried,
        fallback::Form,
        forward::{EngineHeaders, Failure, Outgoing, Reply, forward},
        unusable::Unusable,
    },
};

/// What engines get of a request.
pub(crate) struct EngineCall {
    pub headers: EngineHeaders,
    pub body: Bytes,
    /// Engines that the request can still go to if its present one can't be reached.
    pub untried: Untried,
    /// Only the gateway asked for the usage event, so it is removed from the answer.
    pub strip: bool,
}

/// Why there is no good answer.
pub(crate) enum NoAnswer {
    Refused(EngineRefusal),
    Failed(Failure),
}

/// Brings a request to an engine. Returns the head of a good answer, and the form in which the engine got the request.
///
/// # Errors
/// The engine refuses the request, or there is no answer.
pub(crate) async fn exchange(
    departed: &mut Departed,
    call: &mut EngineCall,
    deadline: &mut Deadline,
) -> Result<(Reply, Form), NoAnswer> {
    let mut form = Form::first(departed, &call.body);
    loop {
        let reply = send(departed, call, &form, deadline).await.map_err(NoAnswer::Failed)?;
        if let Some(unusable) = Unusable::of(&reply.answer) {
            return Err(NoAnswer::Failed(Failure::Unusable(unusable)));
        }
        if reply.answer.status().is_success() {
            return Ok((reply, form));
        }
        let refused = read_refusal(deadline, reply, departed).await.map_err(NoAnswer::Failed)?;
        match form.instead(departed, &call.body, &refused) {
            Some(other) => form = other,
            None => return Err(NoAnswer::Refused(refused)),
        }
    }
}

/// Sends a request to its engine, up to the head of the answer. If the engine can't be reached, another one of the route
/// gets it.
async fn send(
    departed: &mut Departed,
    call: &mut EngineCall,
    form: &Form,
    deadline: &mut Deadline,
) -> Result<Reply, Failure> {
    let outgoing = Outgoing {
        endpoint: form.endpoint(departed.meter.head.endpoint),
        headers: &call.headers,
        body: form.body(&call.body),
        timeout: departed.route.request_timeout,
    };
    loop {
        let thread = &departed.meter.thread;
        let is_last = !call.untried.any();
        let failure = match forward(thread, &departed.upstream, is_last, &outgoing, deadline).await {
            Ok(reply) => {
                departed.heard(Instant::now());
                return Ok(reply);
            }
            Err(failure) => failure,
        };
        let now = Instant::now();
        if !failure.is_of_this_engine() {
            return Err(failure);
        }
        let engines = departed.route.target.upstreams();
        let Ok(permit) = call.untried.enter(engines, &departed.entrant(), now) else {
            return Err(failure);
        };
        let id = departed.meter.head.id;
        tracing::debug!(?failure, %id, "an engine can't be reached, and another one gets the request");
        thread.shared.counters.upstream_retries[Retry::Elsewhere as usize].fetch_add(1, Relaxed);
        departed.divert(permit, now);
    }
}
