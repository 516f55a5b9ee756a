//! `GET /readyz`.

use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use gantry_domain::{
    Timestamp,
    schema::{self, Shape},
    view,
};
use serde_json::json;

use crate::{
    App,
    operation::{Doc, Operation, Output},
};

/// Marks a request that came while the gateway shuts down: it still serves, and takes nothing new.
#[derive(Debug, Clone, Copy)]
pub struct Leaving;

view! {
    /// Each check says `ok` or what is wrong.
    #[derive(Debug)]
    pub(crate) struct Checks {
        database: String,
        container_runtime: String,
        supervision: String,
        catalog: String,
        usage_spool: String,
        /// Whether the newest backup can be restored; only with `RESTORE_DRILL`.
        restore_drill: Option<String> => optional,
    }
}

/// What the gateway can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ready,
    Degraded,
    Unavailable,
    ShuttingDown,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Unavailable => "unavailable",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// The answer: 503 if the gateway can't serve.
#[derive(Debug)]
pub(crate) struct Readiness {
    status: Status,
    runtime: &'static str,
    checks: Checks,
    /// RFC 3339; `None` if no restore was proven yet.
    last_proven_restore: Option<String>,
}

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let ready = matches!(self.status, Status::Ready | Status::Degraded);
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = json!({
            "status": self.status.as_str(), "runtime": self.runtime, "checks": self.checks,
            "last_proven_restore": self.last_proven_restore,
        });
        (status, Json(body)).into_response()
    }
}

impl Output for Readiness {
    fn describe(doc: &mut Doc) {
        let mut body = |status: [Status; 2]| {
            let checks = Checks::schema(&mut doc.components);
            schema::object([
                ("status", schema::one_of(&status.map(Status::as_str))),
                ("runtime", schema::one_of(&["docker", "process"])),
                ("checks", checks),
                ("last_proven_restore", Option::<schema::Rfc3339>::schema(&mut doc.components)),
            ])
        };
        let (can, cannot) =
            (body([Status::Ready, Status::Degraded]), body([Status::Unavailable, Status::ShuttingDown]));
        // At the end the data plane answers, which asks nobody any more.
        let ending = schema::object([
            ("status", schema::constant(Status::ShuttingDown.as_str())),
            ("checks", schema::object([])),
        ]);
        doc.answered(200, "OK.", can);
        doc.answered(
            503,
            "It can't serve: the database is away, usage can't be recorded, or it is shutting down.",
            json!({ "anyOf": [cannot, ending] }),
        );
    }
}

pub(crate) const READY: Operation = Operation::new("getReadiness", "Readiness").about(
    "The gateway is degraded if the container runtime does not answer, if no gateway supervises the models, or if keys, \
     sessions or models can't be read from the database (`catalog`), or if no backup was proven lately (`restore_drill`, with \
     `RESTORE_DRILL`); inference goes on, with what was read last, and \
     without rows that are damaged. `runtime` says what runs the engines. Each check says `ok` or what is wrong. The \
     runtime is asked at most every 2 s, for all callers together, and waited for at most 1 s; what is wrong with it in \
     detail is in the log, and in the capabilities of the system.",
);

pub(crate) async fn ready(app: State<App>, leaving: Option<Extension<Leaving>>) -> Readiness {
    let (quick, slow) = tokio::join!(app.store.ping(), app.store.ping_slow());
    let database = quick.map_err(|_| "the database can't be reached".to_owned());
    // Inference goes on, and other gateways on this database may be no better off.
    let busy = slow.map_err(|_| "all connections to the database are busy or do not answer".to_owned());
    let runtime = app.checks.runtime_ok().await.map_err(str::to_owned);
    let (supervision, catalog) = (app.checks.supervision_ok(), app.checks.catalog_ok());
    let spool = app.checks.spool_ok().await.map_err(str::to_owned);
    let missing = match app.monitor.spool().missing {
        0 => Ok(()),
        1 => Err("a usage row was lost: files of the usage spool were removed".to_owned()),
        n => Err(format!("{n} usage rows were lost: files of the usage spool were removed")),
    };
    let (drill, last_proven) = (app.checks.drill_ok(), app.checks.last_proven());
    let proven = drill.as_ref().is_none_or(Result::is_ok);
    let works = database.is_ok() && spool.is_ok();
    let status = match (
        works,
        runtime.is_ok()
            && supervision.is_ok()
            && catalog.is_ok()
            && busy.is_ok()
            && missing.is_ok()
            && proven,
    ) {
        _ if leaving.is_some() => Status::ShuttingDown,
        (false, _) => Status::Unavailable,
        (true, false) => Status::Degraded,
        (true, true) => Status::Ready,
    };
    let text = |check: Result<(), String>| check.err().unwrap_or_else(|| "ok".to_owned());
    let checks = Checks {
        database: text(database.and(busy)),
        container_runtime: text(runtime),
        supervision: text(supervision),
        catalog: text(catalog),
        usage_spool: text(spool.and(missing)),
        restore_drill: drill.map(text),
    };
    let last_proven_restore = last_proven.map(Timestamp::rfc3339);
    Readiness { status, runtime: app.config.runtime.name, checks, last_proven_restore }
}
