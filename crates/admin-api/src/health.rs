//! `GET /readyz`.

use axum::{Json, extract::State, http::StatusCode, response::IntoResponse};
use serde_json::json;

use crate::App;

/// Readiness
///
/// A container runtime that does not answer degrades the gateway, and so does it if no gateway supervises the models;
/// inference goes on. `runtime` says what runs the engines.
pub(crate) async fn ready(app: State<App>) -> impl IntoResponse {
    let database = match app.store.ping().await {
        Ok(()) => Ok(()),
        Err(_) => Err("the database can't be reached".to_owned()),
    };
    let runtime = app.engines.runtime_ok().await;
    let supervision = app.engines.supervision_ok();
    let spool = if app.engines.spool_ok() { Ok(()) } else { Err("usage can't be recorded".to_owned()) };
    let ready = database.is_ok() && spool.is_ok();
    let status = match (ready, runtime.is_ok() && supervision.is_ok()) {
        (false, _) => "unavailable",
        (true, false) => "degraded",
        (true, true) => "ready",
    };
    let text = |check: Result<(), String>| check.err().unwrap_or_else(|| "ok".to_owned());
    let body = json!({
        "status": status,
        "runtime": app.runtime,
        "checks": {
            "database": text(database), "container_runtime": text(runtime), "supervision": text(supervision),
            "usage_spool": text(spool),
        },
    });
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(body))
}
