//! Requests to a model that is being applied wait for it instead of failing: its container stops and another starts,
//! which takes seconds to minutes. A request that waits has its place among the key's concurrent requests and its
//! meter, so it ends like any other (client gone, shutdown); memory is bounded by the places of the [`WaitQueue`], and
//! that of their bodies by [`crate::request::body_memory`].
//!
//! [`WaitQueue`]: crate::request::wait_queue::WaitQueue

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_domain::{ApiError, ErrorCode};
use http::HeaderMap;

use crate::{
    catalog::Route,
    request::{
        availability::Availability,
        deadline::{Deadline, Over},
    },
    response::errors::shutting_down,
    shared::Shared,
};

/// Seconds after which clients should retry when waiting was in vain. A retry costs little, and loading takes seconds
/// at least.
const RETRY_AFTER_SEC: u64 = 5;

/// Returns how long a client is ready to wait: `Prefer: wait=<seconds>` (RFC 7240 §4.3); `None` if it does not say.
pub(crate) fn patience(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").iter().filter_map(|it| it.to_str().ok());
    let wait = |it: &str| {
        let (name, value) = it.split(';').next()?.split_once('=')?;
        let named = name.trim().eq_ignore_ascii_case("wait");
        named.then(|| value.trim().trim_matches('"').parse().ok().map(Duration::from_secs)).flatten()
    };
    values.flat_map(|it| it.split(',')).find_map(wait)
}

/// Waits until `look` finds the model up; it is called again whenever the queue calls the request. The wait ends at
/// `limit`, which comes from the client and the route, and at the time that `look` returned last.
///
/// # Errors
/// 503 `model_not_running` when it took too long or too many wait; 503 `shutting_down`; what `look` says.
pub(crate) async fn wait(
    shared: &Shared,
    deadline: &mut Deadline,
    served_name: &str,
    limit: Instant,
    mut look: impl FnMut() -> Result<(Arc<Route>, Availability), ApiError>,
) -> Result<Arc<Route>, ApiError> {
    // It is in the queue before it looks, so that it misses no call.
    let Some(mut waiter) = shared.waiting.join(served_name) else {
        let message = format!("too many requests wait for the model `{served_name}`, which is being applied");
        return Err(refused(message));
    };
    loop {
        let until = match look()? {
            (route, Availability::Up) => {
                waiter.take_place();
                return Ok(route);
            }
            (_, Availability::Returning(until)) => until,
        };
        let left = until.since(shared.clock.now());
        deadline.set(limit.min(Instant::now() + left));
        match deadline.limit(waiter.called()).await {
            Ok(()) => {}
            Err(Over::Cut) => return Err(shutting_down()),
            Err(Over::TimedOut) => {
                let message = format!("the model `{served_name}` is being applied and was not back in time");
                return Err(refused(message));
            }
        }
    }
}

fn refused(message: String) -> ApiError {
    ApiError::new(ErrorCode::ModelNotRunning, message).retry_after(RETRY_AFTER_SEC).retryable(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_say_how_long_they_wait() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("prefer", http::HeaderValue::from_static(line));
            }
            patience(&headers).map(|it| it.as_secs())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["wait=0"]), Some(0));
        assert_eq!(of(&["respond-async, Wait = 10"]), Some(10));
        assert_eq!(of(&["return=minimal", "wait=\"7\"; x=1"]), Some(7));
        for nonsense in ["wait", "wait=soon", "wait=-1", "waits=1"] {
            assert_eq!(of(&[nonsense]), None, "{nonsense}");
        }
    }
}
