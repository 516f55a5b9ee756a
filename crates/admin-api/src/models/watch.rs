//! Looking at a model that runs, or should: readiness, logs, a test request, and its timeline.

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, LogWindow, Timestamp,
    diagnosis::{self, Diagnosis},
    host::RouteHealth,
    model::{Model, ModelEvent, Phase, State as ModelState},
    schema::{Rfc3339, one_of},
    view,
};

use super::{find, follow::Lines, startup_timeout_sec};
use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::Outcome,
    operation::{Either, Id, Listed, Number, Operation, Page, Query, Switch, query},
    ports::{Drift, EngineLog, TestReport},
};

/// Most events that are read of a model: more than are kept.
const MAX_EVENTS: i64 = 1000;

view! {
    #[derive(Debug)]
    pub(crate) struct Readiness {
        status: &'static str as one_of(&["ready", "loading", "stopped", "error"]),
        detail: String,
        state: ModelState,
        state_reason: Option<String>,
        /// Seconds since the start began, while it is under way.
        elapsed_sec: Option<u64>,
        /// Seconds after which a start that is not ready fails.
        timeout_sec: i64,
    }
}

pub(crate) const READINESS: Operation = Operation::new("getModelReadiness", "Readiness of a model");

pub(crate) async fn readiness(app: State<App>, Id(id): Id) -> Outcome<Json<Readiness>> {
    let model = find(&app, id).await?;
    let (state, reason) = model.state();
    let (status, detail) = match state {
        ModelState::Running => running(&app, &model),
        ModelState::Starting => ("loading", starting(app.engines.live(model.id).pull)),
        ModelState::Loading => ("loading", "the container runs, the engine does not answer yet".to_owned()),
        ModelState::Stopping => ("stopped", "the container is being stopped".to_owned()),
        ModelState::Stopped => ("stopped", "the model is not started".to_owned()),
        ModelState::Failed => {
            let why = model.diagnosis.as_ref().map(Diagnosis::line).or_else(|| reason.clone());
            ("error", why.unwrap_or_default())
        }
    };
    let since = match &model.phase {
        Phase::Starting { since, .. } | Phase::Loading { since, .. } => Some(*since),
        _ => None,
    };
    Ok(Json(Readiness {
        status,
        detail,
        state,
        state_reason: reason,
        elapsed_sec: since.map(|since| app.steady.now().since(since).as_secs()),
        timeout_sec: startup_timeout_sec(&app, &model),
    }))
}

/// Returns what requests to a running model would meet now.
fn running(app: &App, model: &Model) -> (&'static str, String) {
    if app.engines.live(model.id).drift == Some(Drift::InternalKey) {
        let why = "the engine has the gateway's key of before, and refuses every request: apply the model";
        return ("error", why.to_owned());
    }
    match app.data_plane.route_health(&model.served_name) {
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

query! {
    pub(crate) struct LogQuery {
        /// The number of lines.
        tail: Number<1000, 20_000>,
        /// Only what was printed then or later, to the second.
        since: Option<Timestamp>,
        /// Go on, as server-sent events.
        follow: Switch<false>,
        /// Say why the model does not run.
        diagnose: Switch<false>,
        /// Keep the colours that the engine prints: ANSI escape sequences (`ESC [ … m`), and no others. With `follow` only.
        colors: Switch<false>,
        /// The log of the run before the current one, as far as it is kept: its last 5,000 lines, or 1 MiB.
        previous: Switch<false>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct LogView {
        logs: String,
        lines: usize,
        /// There were more lines before these.
        truncated: bool,
        /// The log is of an engine that an earlier command started: the last one made none, or none yet.
        earlier: bool,
        /// With `previous`: when the engine of that run was removed. It is missing if there was no run before.
        until: Option<Rfc3339> => optional,
        diagnosis: Option<Diagnosis> => optional,
        summary: Option<String> => optional,
    }
}

impl LogView {
    /// The last `tail` lines of a text.
    fn of(text: &str, tail: usize) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let kept = &lines[lines.len().saturating_sub(tail)..];
        Self {
            logs: kept.join("\n"),
            lines: kept.len(),
            truncated: lines.len() > tail,
            earlier: false,
            until: None,
            diagnosis: None,
            summary: None,
        }
    }
}

pub(crate) const LOGS: Operation = Operation::new("getModelLogs", "The engine's log")
    .about(
        "The answer has the last `tail` lines. With `diagnose` it also says why the model does not run and which field to \
         change. With `follow` it is a stream of server-sent events, each `{\"line\": …}`, until the session ends. With `previous` it is the log of the run before, \
         which the gateway keeps when it removes the engine; `since`, `follow` and `diagnose` do not go with it.",
    )
    .errors(&[
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidState,
        ErrorCode::TooManyStreams,
        ErrorCode::RuntimeUnavailable,
        ErrorCode::StreamsExhausted,
    ]);

pub(crate) async fn logs(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    Query(query): Query<LogQuery>,
) -> Outcome<Either<Json<LogView>, Lines>> {
    let LogQuery {
        since, follow: Switch(follow), diagnose: Switch(diagnose), colors: Switch(colors), ..
    } = query;
    let tail = query.tail.0 as usize;
    let model = find(&app, id).await?;
    if colors && !follow {
        let why = "`colors` goes with `follow` only";
        return Err(ApiError::new(ErrorCode::InvalidRequest, why).with_param("colors").into());
    }
    if query.previous.0 {
        if follow || diagnose || since.is_some() {
            let why = "`previous` does not go with `since`, `follow` or `diagnose`";
            return Err(ApiError::new(ErrorCode::InvalidRequest, why).with_param("previous").into());
        }
        return Ok(Either::First(Json(match app.engines.previous_log(model.id).await? {
            Some(log) => LogView { until: Some(log.until.into()), ..LogView::of(&log.text, tail) },
            None => LogView::of("", tail),
        })));
    }
    if follow {
        let seat = caller.take_seat(&app.bounds.seats)?;
        let lines = app.engines.follow(&model, LogWindow { tail, since, colors }).await?;
        return Ok(Either::Second(Lines::new(app.0, caller.grant, lines, seat)));
    }
    // One line more than wanted is read, which shows whether there were more.
    let log = app.engines.logs(&model, LogWindow { tail: tail + 1, since, colors: false }).await?;
    let mut view = LogView { earlier: log.earlier, ..LogView::of(&log.text, tail) };
    if diagnose {
        let (state, reason) = model.state();
        // The log of an earlier engine says nothing about a start that made no engine.
        let log = if log.earlier && state == ModelState::Failed { EngineLog::default() } else { log };
        view.diagnosis = Some(diagnosis::diagnose(&diagnosis::Input {
            engine: model.engine,
            log: &log.text,
            exit_code: log.exit_code,
            out_of_memory: log.out_of_memory,
            reason: reason.as_deref(),
            watch: log.watch,
            config: &model.config,
        }));
        view.summary = Some(diagnosis::summary(&log.text));
    }
    Ok(Either::First(Json(view)))
}

pub(crate) const TEST: Operation = Operation::new("testModel", "Test a running model")
    .about(
        "The gateway sends one small request straight to the engine; to a model without a chat template, a completion. It \
         is not metered.",
    )
    .errors(&[ErrorCode::InvalidState]);

pub(crate) async fn test(app: State<App>, Id(id): Id) -> Outcome<Json<TestReport>> {
    let model = find(&app, id).await?;
    let state = model.state().0;
    if state != ModelState::Running {
        return Err(Parts::invalid_state(format!("the model is {state}, not running")));
    }
    // What is tested is what runs, whatever the record says by now.
    Ok(Json(app.engines.test(&model.as_launched()).await))
}

view! {
    /// An entry of a model's timeline.
    #[derive(Debug)]
    pub(crate) struct EventView {
        at: Rfc3339,
        from: ModelState,
        to: ModelState,
        reason: Option<String>,
        detail: Option<String>,
        /// How long the state before lasted; `null` if there was none.
        duration_ms: Option<u64>,
    }
}

pub(crate) const EVENTS: Operation =
    Operation::new("listModelEvents", "The timeline of a model").about("The newest entry comes first.");

pub(crate) async fn events(
    app: State<App>,
    Id(id): Id,
    Query(page): Query<Page>,
) -> Outcome<Listed<EventView>> {
    let model = find(&app, id).await?;
    let events = app.store.read().await?.events(model.id, MAX_EVENTS).await?;
    // The state that an event ends began with the event before.
    let before: Vec<Option<Timestamp>> = events.iter().skip(1).map(|it| Some(it.at)).chain([None]).collect();
    let view = |(it, before): (ModelEvent, Option<Timestamp>)| EventView {
        at: it.at.into(),
        from: it.from,
        to: it.to,
        reason: it.reason,
        detail: it.detail,
        duration_ms: before.map(|before| it.at.since(before).as_millis() as u64),
    };
    Ok(page.of(events.into_iter().zip(before).map(view).collect()))
}
