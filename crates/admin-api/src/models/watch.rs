//! Looking at a model that runs, or should: readiness, logs, a test request, and its timeline.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use gantry_domain::{
    LogWindow, Timestamp, diagnosis,
    host::RouteHealth,
    model::{Model, ModelEvent, Phase, State as ModelState},
};
use serde_json::{Value, json};

use super::{find, follow, startup_timeout_sec};
use crate::{
    App,
    app::{Drift, EngineLog, Parts},
    error::Outcome,
    operation::{Id, Listed, Params},
    policy::Caller,
};

/// Number of log lines that are returned by default, and at most.
const TAIL: (i64, i64) = (1000, 20_000);
/// Most events that are read of a model: more than are kept.
const MAX_EVENTS: i64 = 1000;

/// Readiness of a model
pub(crate) async fn readiness(app: State<App>, Id(id): Id, params: Params) -> Outcome<Json<Value>> {
    params.finish()?;
    let model = find(&app, id).await?;
    let (state, reason) = model.state();
    let (status, detail) = match state {
        ModelState::Running => running(&app, &model),
        ModelState::Starting => ("loading", starting(app.engines.live(model.id).pull)),
        ModelState::Loading => ("loading", "the container runs, the engine does not answer yet".to_owned()),
        ModelState::Stopping => ("stopped", "the container is being stopped".to_owned()),
        ModelState::Stopped => ("stopped", "the model is not started".to_owned()),
        ModelState::Failed => {
            let why = model.diagnosis.as_ref().map(diagnosis::Diagnosis::line).or_else(|| reason.clone());
            ("error", why.unwrap_or_default())
        }
    };
    let since = match &model.phase {
        Phase::Starting { since, .. } | Phase::Loading { since, .. } => Some(*since),
        _ => None,
    };
    let elapsed = since.map(|since| app.steady.now().since(since).as_secs());
    Ok(Json(json!({
        "status": status, "detail": detail, "state": state, "state_reason": reason,
        "elapsed_sec": elapsed, "timeout_sec": startup_timeout_sec(&app, &model),
    })))
}

/// Returns what requests to a running model would meet now.
fn running(app: &App, model: &Model) -> (&'static str, String) {
    if app.engines.live(model.id).drift == Some(Drift::InternalKey) {
        let why = "the engine has the gateway's key of before, and refuses every request: apply the model";
        return ("error", why.to_owned());
    }
    match app.engines.route_health(&model.served_name) {
        Some(RouteHealth::Stalled { silent_sec }) => {
            let why = format!(
                "the engine has sent nothing for {silent_sec} s while requests wait for it; until it does, it gets new ones \
                 only now and then"
            );
            ("error", why)
        }
        Some(health @ RouteHealth::Failing { for_some, .. }) => {
            let breaker = health.breaker();
            let whose = if for_some { ", for the one or two callers who sent them" } else { "" };
            let why = format!(
                "requests to the engine failed repeatedly, and it is given a pause{whose} (its breaker is {breaker}); \
                 `GET /admin/upstreams` says more"
            );
            ("error", why)
        }
        _ => ("ready", "the engine answers".to_owned()),
    }
}

fn starting(pull: Option<(u64, u64)>) -> String {
    match pull {
        Some((done, known)) => {
            let mib = |bytes: u64| bytes >> 20;
            format!("the image is being pulled: {} of {} MiB known so far", mib(done), mib(known))
        }
        None => "the container is being made".to_owned(),
    }
}

/// The engine's log
///
/// The last `tail` lines; with `diagnose=true` also why the model does not run and which field to change; with
/// `follow=true` a stream of server-sent events, one for each line, which ends with the session.
pub(crate) async fn logs(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    mut params: Params,
) -> Outcome<Response> {
    let tail = params.number("tail", TAIL.0, TAIL.1)? as usize;
    let since = params.parsed("since", "an RFC 3339 time", Timestamp::parse_rfc3339)?;
    let follow = params.flag("follow")?;
    let diagnose = params.flag("diagnose")?;
    params.finish()?;
    let model = find(&app, id).await?;
    if follow {
        let seat = app.seats.take(caller.grant.key())?;
        let lines = app.engines.follow(&model, LogWindow { tail, since }).await?;
        let events = follow::events(app.0, caller.grant, lines).map(move |event| {
            let _held = &seat;
            event
        });
        let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
        return Ok((headers, Body::from_stream(events)).into_response());
    }
    // One line more than wanted is read, which shows whether there were more.
    let log = app.engines.logs(&model, LogWindow { tail: tail + 1, since }).await?;
    let lines: Vec<&str> = log.text.lines().collect();
    let truncated = lines.len() > tail;
    let kept = &lines[lines.len().saturating_sub(tail)..];
    let mut body = json!({ "logs": kept.join("\n"), "lines": kept.len(), "truncated": truncated, "earlier": log.earlier });
    if diagnose {
        let (state, reason) = model.state();
        // The log of an earlier engine says nothing about a start that made no engine.
        let log = if log.earlier && state == ModelState::Failed { EngineLog::default() } else { log };
        let found = diagnosis::diagnose(&diagnosis::Input {
            engine: model.engine,
            log: &log.text,
            exit_code: log.exit_code,
            out_of_memory: log.out_of_memory,
            reason: reason.as_deref(),
            watch: log.watch,
            config: &model.config,
        });
        body["diagnosis"] = json!(found);
        body["summary"] = diagnosis::summary(&log.text).into();
    }
    Ok(Json(body).into_response())
}

/// Test a running model
///
/// Sends one small request straight to the engine; to a model without a chat template, a completion. It is not metered.
pub(crate) async fn test(app: State<App>, Id(id): Id) -> Outcome<impl IntoResponse> {
    let model = find(&app, id).await?;
    let state = model.state().0;
    if state != ModelState::Running {
        return Err(Parts::invalid_state(format!("the model is {state}, not running")));
    }
    // What is tested is what runs, whatever the record says by now.
    Ok(Json(app.engines.test(&model.as_launched()).await))
}

/// The timeline of a model
///
/// Newest first; `duration_ms` is how long the state before lasted, `null` if there was none.
pub(crate) async fn events(app: State<App>, Id(id): Id, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    params.finish()?;
    let model = find(&app, id).await?;
    let events = app.store.read().await?.events(model.id, MAX_EVENTS).await?;
    let n = events.len() as i64;
    // The state that an event ends began with the event before.
    let before = events.iter().skip(1).map(Some).chain([None]);
    let window = events.iter().zip(before).skip(page.offset as usize).take(page.limit as usize);
    let view = |(it, before): (&ModelEvent, Option<&ModelEvent>)| {
        json!({
            "at": it.at.rfc3339(), "from": it.from, "to": it.to, "reason": it.reason, "detail": it.detail,
            "duration_ms": before.map(|before| it.at.since(before.at).as_millis() as u64),
        })
    };
    Ok(Listed(window.map(view).collect::<Vec<Value>>(), n))
}
