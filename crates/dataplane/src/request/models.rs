//! `GET /v1/models`: what runs and may be called, in the shape of the OpenAI API, or of Anthropic's for its clients. Not
//! metered.

use std::{net::IpAddr, rc::Rc, sync::Arc, time::Instant};

use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint, model::Task, name};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::{
    catalog::{Catalog, Route, RouteTarget},
    limits::{self, Moment},
    request::auth::{self, Caller},
    response::{
        answer::{self, Answer},
        headers,
    },
    thread_state::ThreadState,
};

/// Header of Anthropic's clients, which gives the version of the API that they use.
const ANTHROPIC: &str = "anthropic-version";

/// The API in whose shape the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    OpenAi,
    Anthropic,
}

/// What is asked for: the list, or one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelsPath {
    List,
    /// A served name as it stands in the path; may contain slashes.
    One(String),
}

/// Reads the path; `None` if it is neither of the two (the admin API has paths below `/v1/models` too).
pub(crate) fn wanted(path: &str) -> Option<ModelsPath> {
    let rest = path.trim_end_matches('/').strip_prefix("/v1/models")?;
    if rest.is_empty() {
        return Some(ModelsPath::List);
    }
    let name = rest.strip_prefix('/').filter(|it| !it.is_empty())?;
    if name == "running" || name.ends_with("/constraints") {
        return None;
    }
    // No model has a name that is not UTF-8.
    Some(ModelsPath::One(percent_decode_str(name).decode_utf8_lossy().into_owned()))
}

pub(crate) fn serve(
    thread: &Rc<ThreadState>,
    request: &Request<Incoming>,
    wanted: &ModelsPath,
    peer: IpAddr,
) -> Response<Answer> {
    let now = thread.shared.clock.now();
    let headers = request.headers();
    let request_id =
        headers::request_id(headers).unwrap_or_else(|| headers::new_request_id(thread.random.id(now)));
    let style = if headers.contains_key(ANTHROPIC) { Style::Anthropic } else { Style::OpenAi };
    let catalog = thread.shared.catalog.load();
    let caller = match auth::authenticate(&thread.config, &catalog, headers, now, false) {
        Ok(caller) => caller,
        Err(error) => return refusal(&error, style, &request_id),
    };
    let allowed = caller.authorize(&thread.config, headers, peer, None);
    let mut answer = match allowed.and_then(|()| body(&catalog, &caller, wanted, style)) {
        Ok(body) => answer::json(StatusCode::OK, &request_id, body.to_string()),
        Err(error) => refusal(&error, style, &request_id),
    };
    if let Some(charges) = caller.charges() {
        limits::write_headers(
            charges,
            &thread.shared.limiter,
            answer.headers_mut(),
            Moment::new(Instant::now(), now),
        );
    }
    answer
}

fn refusal(error: &ApiError, style: Style, request_id: &HeaderValue) -> Response<Answer> {
    match style {
        Style::OpenAi => answer::error(error, request_id, true),
        Style::Anthropic => answer::error_at(Endpoint::Messages, error, request_id),
    }
}

fn body(catalog: &Catalog, caller: &Caller, wanted: &ModelsPath, style: Style) -> Result<Value, ApiError> {
    // A model that is being applied can be called, too: the request waits.
    let callable = |it: &Route| {
        matches!(it.target, RouteTarget::Up(_) | RouteTarget::AnyOf(_) | RouteTarget::Returning { .. })
    };
    let shown = |it: &Route| callable(it) && caller.may_call(&it.served_name) && caller.fits(it.task);
    match wanted {
        ModelsPath::List => {
            let mut routes: Vec<_> = catalog.routes.values().filter(|it| shown(it)).collect();
            routes.sort_unstable_by(|a, b| a.served_name.cmp(&b.served_name));
            let id_of = |it: Option<&&Arc<Route>>| it.map(|it| it.served_name.clone());
            let (first, last) = (id_of(routes.first()), id_of(routes.last()));
            let data: Vec<_> = routes.into_iter().map(|it| entry(it, style)).collect();
            Ok(match style {
                Style::OpenAi => json!({"object": "list", "data": data}),
                // All on one page, whatever `limit` says.
                Style::Anthropic => {
                    json!({"data": data, "has_more": false, "first_id": first, "last_id": last})
                }
            })
        }
        ModelsPath::One(name) => {
            let route = catalog.routes.get(name).filter(|it| shown(it)).ok_or_else(|| {
                let message = format!("no model `{}` runs", name::shown(name));
                ApiError::new(ErrorCode::ModelNotFound, message).with_param("model")
            });
            route.map(|it| entry(it, style))
        }
    }
}

fn entry(route: &Route, style: Style) -> Value {
    let (id, task, max_model_len) = (&route.served_name, route.task.as_str(), route.max_model_len);
    let mut entry = match style {
        Style::OpenAi => json!({
            "id": id, "object": "model", "created": route.created.0 / 1000, "owned_by": "gantry",
            "task": task, "max_model_len": max_model_len,
            // Mistral's client reads no entry without these two.
            "type": "base", "capabilities": {"completion_chat": route.task == Task::Generate},
        }),
        Style::Anthropic => json!({
            "type": "model", "id": id, "display_name": id, "created_at": route.created.rfc3339(),
            "task": task, "max_model_len": max_model_len,
        }),
    };
    if route.simulator {
        entry["simulator"] = true.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_slashes_and_the_admin_paths_are_left_alone() {
        let one = |it: &str| Some(ModelsPath::One(it.into()));
        assert_eq!(wanted("/v1/models"), Some(ModelsPath::List));
        assert_eq!(wanted("/v1/models/org/m:8b"), one("org/m:8b"));
        assert_eq!(wanted("/v1/models/org%2Fm"), one("org/m"));
        assert_eq!((wanted("/v1/models/"), wanted("/v1/models/m/")), (Some(ModelsPath::List), one("m")));
        for path in ["/v1/models/running", "/v1/models/a/b/constraints", "/v1/modelsx", "/v1/model"] {
            assert_eq!(wanted(path), None, "{path}");
        }
    }
}
