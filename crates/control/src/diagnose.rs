//! Finds out why a model failed and stores the diagnosis with its record.
//!
//! A diagnosis that follows from the failure's reason alone is stored together with the failure. Otherwise the engine's
//! log is read after the failure is stored and published, so that nothing waits for it. An error here costs only the
//! diagnosis.

use std::time::Duration;

use gantry_domain::{
    LogWindow,
    diagnosis::{self, Diagnosis, Input, Watch},
    model::{
        Model, Phase,
        lifecycle::{Failure, InstanceStatus, Rules},
    },
};
use gantry_runtime::RuntimeResult;
use gantry_store::StoreResult;
use tracing::{debug, warn};

use crate::Control;

/// Number of lines that are read from the end of the log. The longest failed start seen, of vLLM, has 230 lines in all.
const TAIL: usize = 400;
/// Longest time for reading the log. The engine that failed is stopped only afterwards.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a container ended, and what it wrote.
#[derive(Default)]
struct End {
    log: String,
    exit_code: Option<i64>,
    out_of_memory: bool,
}

/// Returns why `model` fails with this phase if the reason alone says so. The diagnosis is to be stored together with
/// the phase.
pub(crate) fn at_once(model: &Model, phase: &Phase) -> Option<Diagnosis> {
    let Phase::Failed { failure, .. } = phase else { return None };
    diagnosis::from_reason(&without_log(model, &failure.to_string()))
}

/// Finds out and stores why `model` failed, if that is not known yet. Does nothing if its phase is another, or there
/// has been a command since.
pub(crate) async fn note(control: &Control, model: &Model) {
    let Phase::Failed { generation, failure, .. } = &model.phase else { return };
    if *generation != model.generation {
        return;
    }
    if let Some(known) = &model.diagnosis {
        return tell(model, known);
    }
    let found = find_out(control, model, failure).await;
    match keep(control, model, &found).await {
        Ok(true) => tell(model, &found),
        Ok(false) => {}
        Err(error) => {
            let cause = &error as &dyn std::error::Error;
            warn!(model = model.id.0, error = cause, "the diagnosis could not be kept");
        }
    }
}

fn tell(model: &Model, found: &Diagnosis) {
    let (kind, field) = (&found.error_type, found.field.as_deref());
    warn!(model = model.id.0, kind = &**kind, field, "{}", found.line());
}

fn without_log<'a>(model: &'a Model, reason: &'a str) -> Input<'a> {
    Input {
        engine: model.engine,
        log: "",
        exit_code: None,
        out_of_memory: false,
        reason: Some(reason),
        watch: Watch::Watched,
        config: &model.config,
    }
}

impl Control {
    /// Whether a gateway watched the engine of `model` when it ended.
    pub fn watch_of(&self, model: &Model) -> Watch {
        match &model.phase {
            Phase::Failed { unwatched: true, .. } if Rules::of(model, &self.boot).rebooted => Watch::Rebooted,
            Phase::Failed { unwatched: true, .. } => Watch::Unwatched,
            _ => Watch::Watched,
        }
    }
}

async fn find_out(control: &Control, model: &Model, failure: &Failure) -> Diagnosis {
    // If an engine does not stop, its log from the start says nothing about why.
    let end = if matches!(failure, Failure::StopFailed { .. }) {
        End::default()
    } else {
        match tokio::time::timeout(PATIENCE, end(control, model)).await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => {
                debug!(model = model.id.0, %error, "no log for the diagnosis");
                End::default()
            }
            Err(_) => End::default(),
        }
    };
    let End { log, exit_code, out_of_memory } = &end;
    let reason = failure.to_string();
    let known = Input { watch: control.watch_of(model), ..without_log(model, &reason) };
    diagnosis::diagnose(&Input { log, exit_code: *exit_code, out_of_memory: *out_of_memory, ..known })
}

/// Returns how the container that this start made ended. Empty if there is no such container.
async fn end(control: &Control, model: &Model) -> RuntimeResult<End> {
    let Some(found) = control.runtime.find(&model.instance_name()).await? else { return Ok(End::default()) };
    // If a start failed before it made a container, the container of the start before is still there.
    if found.instance.generation != model.generation {
        return Ok(End::default());
    }
    let log = control.runtime.logs(&found.instance.id, LogWindow::last(TAIL)).await?;
    Ok(match found.instance.status {
        InstanceStatus::Exited { code, out_of_memory } => End { log, exit_code: Some(code), out_of_memory },
        _ => End { log, ..End::default() },
    })
}

async fn keep(control: &Control, model: &Model, found: &Diagnosis) -> StoreResult<bool> {
    let _turn = control.publisher.turn().await;
    let mut tx = control.store.write().await?;
    control.supervision.fence(&mut tx)?;
    let kept = tx.record_diagnosis(model.id, model.generation, found).await?;
    tx.commit().await?;
    Ok(kept)
}
