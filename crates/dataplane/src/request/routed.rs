//! A request whose route is known.

use std::{sync::Arc, time::Duration};

use gantry_domain::ApiError;
use http::HeaderMap;

use crate::{
    catalog::Route,
    limits::Demand,
    record::meter::{Destination, Meter},
    request::{
        admitted::{Admitted, Edits},
        availability::{self, Availability},
        deadline::Deadline,
        token_estimate::TokenEstimate,
        wait_for_model,
    },
    response::refusal::Refused,
};

/// A request whose route is known.
pub(crate) struct Routed {
    meter: Box<Meter>,
    route: Arc<Route>,
    availability: Availability,
    estimate: TokenEstimate,
    edits: Edits,
}

impl Routed {
    pub(super) fn new(
        meter: Box<Meter>,
        route: Arc<Route>,
        availability: Availability,
        estimate: TokenEstimate,
        edits: Edits,
    ) -> Self {
        Self { meter, route, availability, estimate, edits }
    }

    /// Takes what the request needs of its caller's limits, and waits for a model that is being applied.
    ///
    /// # Errors
    /// 429: a limit refuses it. 503: the model did not come back.
    pub(crate) async fn admit(
        self,
        deadline: &mut Deadline,
        headers: &HeaderMap,
    ) -> Result<Admitted, Refused> {
        let Self { mut meter, route, availability, estimate, edits } = self;
        if let Err(error) = take(&mut meter, &estimate) {
            return Err(Refused::new(meter, error));
        }
        let route = match availability {
            Availability::Up => Ok(route),
            Availability::Returning(_) => Box::pin(until_back(&mut meter, deadline, headers, &route)).await,
        };
        match route {
            Ok(route) => Ok(Admitted::new(meter, route, estimate, edits)),
            Err(error) => Err(Refused::new(meter, error)),
        }
    }
}

fn take(meter: &mut Meter, estimate: &TokenEstimate) -> Result<(), ApiError> {
    if !meter.is_limited() {
        return Ok(());
    }
    let tokens = meter.head.endpoint.runs_model().then(|| estimate.reservation());
    meter.admit(Demand { tokens, stream: meter.streams() })
}

/// Waits until a model that is being applied is back. Then everything that the catalog says of it is checked again.
async fn until_back(
    meter: &mut Meter,
    deadline: &mut Deadline,
    headers: &HeaderMap,
    route: &Route,
) -> Result<Arc<Route>, ApiError> {
    let name = route.served_name.as_str();
    let shared = Arc::clone(&meter.thread.shared);
    let patience = wait_for_model::patience(headers).unwrap_or(Duration::MAX).min(route.request_timeout);
    let limit = meter.started + patience;
    let look = || {
        let catalog = shared.catalog.load();
        let route = catalog.routes.get(name).ok_or_else(|| availability::no_such_model(name))?;
        let availability = availability::of(&meter.caller, meter.head.endpoint, route)?;
        Ok((Arc::clone(route), availability))
    };
    let route = wait_for_model::wait(&shared, deadline, name, limit, look).await?;
    meter.leads_to(Destination::Routed { route: Arc::clone(&route), stream: meter.streams() });
    Ok(route)
}
