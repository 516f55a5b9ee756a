//! Whether a caller may call a model now.

use gantry_domain::{ApiError, ErrorCode, Timestamp, endpoint::Endpoint, model::State, name};

use crate::{
    catalog::{Route, RouteTarget},
    request::auth::Caller,
};

/// Whether a route leads to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Up,
    /// Being applied; expected back by then.
    Returning(Timestamp),
}

/// Returns whether `caller` may call a route's model at `endpoint`, now or soon.
///
/// # Errors
/// 403: the caller may not. 400 `task_mismatch`. 503 `model_not_running`.
pub(crate) fn of(caller: &Caller, endpoint: Endpoint, route: &Route) -> Result<Availability, ApiError> {
    if !caller.may_call(&route.served_name) {
        let message = "this key, or its user, may not call this model";
        return Err(ApiError::new(ErrorCode::ModelNotAllowed, message).with_param("model"));
    }
    if !caller.fits(route.task) && endpoint.scope().is_none() {
        let message = format!("this key lacks the scopes of models for `{}`", route.task);
        return Err(ApiError::new(ErrorCode::InsufficientScope, message));
    }
    if endpoint.task().is_some_and(|it| it != route.task) {
        let message = format!("`{}` is a model for `{}`", route.served_name, route.task);
        return Err(ApiError::new(ErrorCode::TaskMismatch, message).with_param("model"));
    }
    match &route.target {
        RouteTarget::Up(_) | RouteTarget::AnyOf(_) => Ok(Availability::Up),
        RouteTarget::Returning { until } => Ok(Availability::Returning(*until)),
        RouteTarget::Elsewhere => {
            let message = format!(
                "the model `{}` runs on another machine, and only a gateway there leads to it",
                route.served_name
            );
            Err(ApiError::new(ErrorCode::ModelNotRunning, message))
        }
        RouteTarget::Down { state } => {
            let is = if *state == State::Failed { "has" } else { "is" };
            let message = format!("the model `{}` {is} {state}", route.served_name);
            let error = ApiError::new(ErrorCode::ModelNotRunning, message);
            Err(match state {
                State::Starting | State::Loading => error.retry_after(2).retryable(true),
                _ => error,
            })
        }
    }
}

/// Returns the error for a name that no route has.
pub(crate) fn no_such_model(name: &str) -> ApiError {
    let message =
        format!("there is no model `{}`; `GET /v1/models` lists those you may call", name::shown(name));
    ApiError::new(ErrorCode::ModelNotFound, message).with_param("model")
}
