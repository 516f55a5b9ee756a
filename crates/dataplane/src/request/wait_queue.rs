//! Requests to a model that is being applied wait for it instead of failing: its container stops and another starts,
//! which takes seconds to minutes. A request that waits has its place among the key's concurrent requests and its
//! meter, so it ends like any other (client gone, shutdown); memory is bounded by the number of requests that wait for
//! one model, and that of their bodies by [`crate::request::body_memory`].

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use gantry_domain::{ApiError, ErrorCode, Timestamp};
use http::HeaderMap;

use crate::{
    request::deadline::{Deadline, Over},
    response::errors::shutting_down,
    shared::Shared,
};

/// Most requests that wait for one model.
pub(crate) const MAX_WAITING: usize = 1024;
/// Seconds after which clients should retry when waiting was in vain. A retry costs little, and loading takes seconds
/// at least.
const RETRY_AFTER_SEC: u64 = 5;

/// The number of waiting requests by served name. Locked only by requests that begin or end to wait.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue(Mutex<HashMap<String, usize>>);

impl WaitQueue {
    /// Returns a place among the waiting requests, given back on drop; `None` if there is none left.
    fn enter<'a>(&'a self, served_name: &'a str) -> Option<Place<'a>> {
        let mut all = self.lock();
        let requests = all.entry(served_name.to_owned()).or_default();
        if *requests >= MAX_WAITING {
            return None;
        }
        *requests += 1;
        Some(Place { waiting: self, served_name })
    }

    /// Returns how many requests wait for a model.
    pub(crate) fn requests(&self, served_name: &str) -> usize {
        self.lock().get(served_name).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Place<'a> {
    waiting: &'a WaitQueue,
    served_name: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.waiting.lock().entry(self.served_name.to_owned()) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

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

/// Waits until `look` finds the model; it is called again after each change of the catalog. The wait ends at `limit`,
/// which comes from the client and the route, and at the time that `look` returned last.
///
/// # Errors
/// 503 `model_not_running` when it took too long or too many wait; 503 `shutting_down`; what `look` says.
pub(crate) async fn wait<T>(
    shared: &Shared,
    deadline: &mut Deadline,
    served_name: &str,
    limit: Instant,
    mut look: impl FnMut() -> Result<Found<T>, ApiError>,
) -> Result<T, ApiError> {
    let mut changes = shared.changes();
    let Some(_place) = shared.waiting.enter(served_name) else {
        let message = format!("too many requests wait for the model `{served_name}`, which is being applied");
        return Err(refused(message));
    };
    loop {
        changes.mark_unchanged();
        let until = match look()? {
            Found::Up(it) => return Ok(it),
            Found::Returning(until) => until,
        };
        let left = until.since(shared.clock.now());
        deadline.set(limit.min(Instant::now() + left));
        match deadline.limit(changes.changed()).await {
            // An error would mean that the catalog is gone, and the gateway with it.
            Ok(_) => {}
            Err(Over::Cut) => return Err(shutting_down()),
            Err(Over::TimedOut) => {
                let message = format!("the model `{served_name}` is being applied and was not back in time");
                return Err(refused(message));
            }
        }
    }
}

/// What the catalog says of a route.
pub(crate) enum Found<T> {
    Up(T),
    /// Being applied; expected back by then.
    Returning(Timestamp),
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

    #[test]
    fn places_are_bounded_and_given_back() {
        let waiting = WaitQueue::default();
        let places: Vec<_> = (0..MAX_WAITING).map(|_| waiting.enter("m").unwrap()).collect();
        assert!(waiting.enter("m").is_none());
        assert!(waiting.enter("other").is_some());
        drop(places);
        assert_eq!(waiting.requests("m"), 0);
        assert!(waiting.0.lock().unwrap().is_empty());
    }
}
