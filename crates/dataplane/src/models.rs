//! `GET /v1/models`: what runs and may be called, in the shape of the OpenAI API. Not metered.

use std::{net::IpAddr, rc::Rc, time::Instant};

use gantry_domain::{ApiError, ErrorCode};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::{
    Catalog, Route, RouteTarget,
    answer::{self, Answer},
    auth::{self, Caller},
    inference, limits,
    worker::Worker,
};

/// Which of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    List,
    /// A served name as it stands in the path; may contain slashes.
    One(String),
}

/// Reads the path; `None` if it is not of these (the admin API has paths below `/v1/models` too).
pub(crate) fn wanted(path: &str) -> Option<Wanted> {
    let rest = path.strip_prefix("/v1/models")?;
    if rest.is_empty() {
        return Some(Wanted::List);
    }
    let name = rest.strip_prefix('/').filter(|it| !it.is_empty())?;
    if name == "running" || name.ends_with("/constraints") {
        return None;
    }
    // What is no UTF-8 is nobody's name.
    Some(Wanted::One(percent_decode_str(name).decode_utf8_lossy().into_owned()))
}

pub(crate) fn serve(
    worker: &Rc<Worker>,
    request: &Request<Incoming>,
    wanted: &Wanted,
    peer: IpAddr,
) -> Response<Answer> {
    let now = worker.shared.clock.now();
    let headers = request.headers();
    let request_id = answer::request_id(headers).unwrap_or_else(|| inference::fresh(worker.new_id(now)));
    let catalog = worker.shared.catalog.load();
    let caller = match auth::authenticate(&worker.config, &catalog, headers, now, false) {
        Ok(caller) => caller,
        Err(error) => return answer::error(&error, &request_id, true),
    };
    let allowed = caller.authorize(&worker.config, headers, peer, None);
    let mut answer = match allowed.and_then(|()| body(&catalog, &caller, wanted)) {
        Ok(body) => answer::json(StatusCode::OK, &request_id, body.to_string()),
        Err(error) => answer::error(&error, &request_id, true),
    };
    if let Some(guard) = caller.guard() {
        limits::write_headers(guard, &worker.shared.limiter, answer.headers_mut(), (Instant::now(), now));
    }
    answer
}

fn body(catalog: &Catalog, caller: &Caller, wanted: &Wanted) -> Result<Value, ApiError> {
    // One that is being applied can be called, too: the request waits.
    let callable = |it: &Route| matches!(it.target, RouteTarget::Up(_) | RouteTarget::Returning { .. });
    let shown = |it: &Route| callable(it) && caller.may_call(&it.served_name) && caller.fits(it.task);
    match wanted {
        Wanted::List => {
            let mut routes: Vec<_> = catalog.routes.values().filter(|it| shown(it)).collect();
            routes.sort_unstable_by(|a, b| a.served_name.cmp(&b.served_name));
            let data: Vec<_> = routes.into_iter().map(|it| entry(it)).collect();
            Ok(json!({"object": "list", "data": data}))
        }
        Wanted::One(name) => match catalog.routes.get(name).filter(|it| shown(it)) {
            Some(route) => Ok(entry(route)),
            None => {
                Err(ApiError::new(ErrorCode::ModelNotFound, "no model of this name runs").with_param("model"))
            }
        },
    }
}

fn entry(route: &Route) -> Value {
    json!({
        "id": route.served_name, "object": "model", "created": route.created.0 / 1000, "owned_by": "gantry",
        "task": route.task.as_str(), "max_model_len": route.max_model_len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_slashes_and_the_admin_paths_are_left_alone() {
        let one = |it: &str| Some(Wanted::One(it.into()));
        assert_eq!(wanted("/v1/models"), Some(Wanted::List));
        assert_eq!(wanted("/v1/models/org/m:8b"), one("org/m:8b"));
        assert_eq!(wanted("/v1/models/org%2Fm"), one("org/m"));
        for path in
            ["/v1/models/", "/v1/models/running", "/v1/models/a/b/constraints", "/v1/modelsx", "/v1/model"]
        {
            assert_eq!(wanted(path), None, "{path}");
        }
    }
}
