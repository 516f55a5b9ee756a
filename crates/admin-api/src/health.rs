//! `GET /readyz`.

use axum::{Extension, Json, extract::State, http::StatusCode, response::IntoResponse};
use serde_json::json;

use crate::App;

/// Marks a request that came while the gateway shuts down: it still serves, and takes nothing new.
#[derive(Debug, Clone, Copy)]
pub struct Leaving;

/// Readiness
///
/// The gateway is degraded if the container runtime does not answer, if no gateway supervises the models, if all
/// connections to the database are taken, or if keys and models can't be read from it; inference goes on. `runtime`
/// says what runs the engines.
pub(crate) async fn ready(app: State<App>, leaving: Option<Extension<Leaving>>) -> impl IntoResponse {
    let (quick, slow) = tokio::join!(app.store.ping(), app.store.ping_slow());
    let database = quick.map_err(|_| "the database can't be reached".to_owned());
    // Inference goes on, and other gateways on this database may be no better off.
    let busy = slow.map_err(|_| "all connections to the database are busy or do not answer".to_owned());
    let runtime = app.engines.runtime_ok().await.map_err(str::to_owned);
    let (supervision, catalog) = (app.engines.supervision_ok(), app.engines.catalog_ok());
    let spool = if app.engines.spool_ok().await { Ok(()) } else { Err("usage can't be recorded".to_owned()) };
    let works = database.is_ok() && spool.is_ok();
    let ready = works && leaving.is_none();
    let status = match (works, runtime.is_ok() && supervision.is_ok() && catalog.is_ok() && busy.is_ok()) {
        _ if leaving.is_some() => "shutting_down",
        (false, _) => "unavailable",
        (true, false) => "degraded",
        (true, true) => "ready",
    };
    let text = |check: Result<(), String>| check.err().unwrap_or_else(|| "ok".to_owned());
    let body = json!({
        "status": status,
        "runtime": app.runtime.name,
        "checks": {
            "database": text(database.and(busy)), "container_runtime": text(runtime), "supervision": text(supervision),
            "catalog": text(catalog), "usage_spool": text(spool),
        },
    });
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(body))
}
