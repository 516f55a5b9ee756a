//! A request whose body was read. The stages of a request that follow each other are [`Peeked`], [`Routed`],
//! [`super::admitted::Admitted`] and [`Departed`](crate::record::departed::Departed): each consumes the one before it, and
//! carries the meter.

use std::sync::Arc;

use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint};

use crate::{
    catalog::Route,
    limits::Demand,
    record::meter::{Destination, Meter},
    request::{
        admitted::Edits,
        availability::{self, Availability},
        peek::{self, Peek, media},
        routed::Routed,
        token_estimate::TokenEstimate,
    },
    response::refusal::Refused,
};

/// A request whose body was read.
pub(crate) struct Peeked<'a> {
    meter: Box<Meter>,
    peek: Peek<'a>,
    /// The answer will stream.
    stream: bool,
    body_bytes: u64,
}

impl<'a> Peeked<'a> {
    /// Reads the few things of a body that decide.
    ///
    /// # Errors
    /// 400: the body is malformed, or has what clients may not send.
    pub(crate) fn new(mut meter: Box<Meter>, body: &'a [u8]) -> Result<Self, Refused> {
        let peek = match peek::peek(body) {
            Ok(peek) => peek,
            Err(error) => {
                if let Some(name) = peek::named(body) {
                    meter.leads_to(Destination::unrouted(&name, false));
                }
                return Err(Refused::new(meter, error));
            }
        };
        let stream = peek.stream && meter.head.endpoint.streams();
        if let Err(error) = media::check(peek.tensors, &peek.fetched, &meter.thread.config.media) {
            meter.leads_to(Destination::unrouted(&peek.model, stream));
            return Err(Refused::new(meter, error));
        }
        Ok(Self { meter, peek, stream, body_bytes: body.len() as u64 })
    }

    /// Finds the route to the model.
    ///
    /// # Errors
    /// 404: there is none. 403 or 400: it is not for this caller, or not for this endpoint. 503: it is not up.
    pub(crate) fn route(mut self) -> Result<Routed, Refused> {
        match self.find() {
            Ok((route, availability)) => {
                let estimate =
                    TokenEstimate::new(self.meter.head.endpoint, &route, &self.peek, self.body_bytes);
                let edits = Edits::new(&self.peek, self.meter.head.endpoint, self.stream);
                Ok(Routed::new(self.meter, route, availability, estimate, edits))
            }
            Err(error) => Err(Refused::new(self.meter, error)),
        }
    }

    fn find(&mut self) -> Result<(Arc<Route>, Availability), ApiError> {
        let (meter, name) = (&mut self.meter, &self.peek.model);
        let route = meter.thread.shared.catalog.load().routes.get(name.as_ref()).map(Arc::clone);
        let Some(route) = route else {
            meter.leads_to(Destination::unrouted(name, self.stream));
            // Requests for unknown models count against `rpm_limit`, because each writes a usage row.
            meter.admit(Demand { tokens: None, stream: false })?;
            return Err(availability::no_such_model(name));
        };
        meter.leads_to(Destination::Routed { route: Arc::clone(&route), stream: self.stream });
        let availability = availability::of(&meter.caller, meter.head.endpoint, &route)?;
        if meter.head.endpoint == Endpoint::Responses && self.peek.choices.is_some_and(|it| it > 1) {
            // llama-server would answer with a list, which no client can use.
            let message = "a response is one answer: `n` can be 1 only";
            return Err(ApiError::new(ErrorCode::ParameterNotAllowed, message).with_param("n"));
        }
        Ok((route, availability))
    }
}
