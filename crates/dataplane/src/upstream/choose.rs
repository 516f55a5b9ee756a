//! Which of a route's engines gets a request: the one with the fewest requests in flight, of those that admit it.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use gantry_domain::{ApiError, net::MAX_ENGINE_URLS};

use crate::{
    caller_id::CallerId,
    catalog::Route,
    request::token_estimate::TokenEstimate,
    response::errors::{UNREACHABLE, unavailable},
    upstream::{
        breaker::Pass,
        engine::Upstream,
        progress::{Class, Entrant, Watch},
    },
};

/// A permit to send a request to an engine.
pub(crate) struct Permit {
    pub upstream: Arc<Upstream>,
    pub pass: Pass,
    pub watch: Watch,
}

/// The engines of a route that a request has not tried yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Untried {
    /// A bit for each engine, by its place in the route.
    bits: u32,
    /// The place at which the search begins: if engines are equally busy, requests spread over them.
    from: usize,
}

const _: () = assert!(MAX_ENGINE_URLS <= u32::BITS as usize);

impl Untried {
    /// Makes the set of all `n` engines; `spread` is any number that differs from request to request.
    pub(crate) fn all(n: usize, spread: u128) -> Self {
        let n = n.min(MAX_ENGINE_URLS);
        let bits = u32::MAX.checked_shr(u32::BITS - n as u32).unwrap_or(0);
        Self { bits, from: (spread % n.max(1) as u128) as usize }
    }

    /// Whether there is another engine to go to.
    pub(crate) fn any(self) -> bool {
        self.bits != 0
    }

    /// Asks one engine after the other to admit the request, those whose probes fail last. Each engine that was asked
    /// counts as tried.
    ///
    /// # Errors
    /// 502 `model_unavailable`: no engine admits the request, or none is left. If several refuse, the
    /// refusal with the shortest `Retry-After` is given.
    pub(crate) fn enter(
        &mut self,
        all: &[Arc<Upstream>],
        entrant: &Entrant,
        now: Instant,
    ) -> Result<Permit, ApiError> {
        let mut refusal: Option<ApiError> = None;
        while let Some(at) = self.next(all) {
            self.bits &= !(1 << at);
            match enter(&all[at], entrant, now) {
                Ok(permit) => return Ok(permit),
                Err(error)
                    if refusal.as_ref().is_none_or(|it| error.retry_after_sec < it.retry_after_sec) =>
                {
                    refusal = Some(error);
                }
                Err(_) => {}
            }
        }
        Err(refusal.unwrap_or_else(|| unavailable(UNREACHABLE).retry_after(1)))
    }

    fn next(self, all: &[Arc<Upstream>]) -> Option<usize> {
        if all.len() == 1 {
            return (self.bits & 1 == 1).then_some(0);
        }
        let places = (0..all.len()).map(|it| (it + self.from) % all.len());
        let load = |at: &usize| (all[*at].ailing.load(Relaxed), all[*at].in_flight.load(Relaxed));
        places.filter(|it| *it < MAX_ENGINE_URLS && self.bits >> it & 1 == 1).min_by_key(load)
    }
}

/// Returns what an engine has to know of a request to admit it.
pub(crate) fn entrant(caller: CallerId, stream: bool, estimate: &TokenEstimate, route: &Route) -> Entrant {
    Entrant {
        caller,
        class: Class::new(stream, estimate.body_bytes()),
        tokens: if stream { 0 } else { estimate.patience() },
        timeout: route.request_timeout,
    }
}

fn enter(upstream: &Arc<Upstream>, entrant: &Entrant, now: Instant) -> Result<Permit, ApiError> {
    let pass = upstream.breaker.enter(entrant.caller, now).map_err(|open| {
        let seconds = open.retry_in.as_secs() + u64::from(open.retry_in.subsec_nanos() > 0);
        let message = if open.for_some {
            "the model's engine answered your requests with errors, repeatedly, and you are given a pause; others are not"
        } else {
            "the model's engine failed repeatedly and is given a pause"
        };
        unavailable(message).retry_after(seconds.max(1))
    })?;
    let watch = upstream.progress.enter(entrant, now).map_err(|stalled| {
        let seconds = stalled.silent.as_secs();
        let message = format!(
            "the model's engine has sent nothing for {seconds} s while requests wait for it; until it does, it gets new ones only now and then"
        );
        unavailable(&message).retry_after(stalled.retry_in.as_secs() + 1)
    })?;
    Ok(Permit { upstream: Arc::clone(upstream), pass, watch })
}
