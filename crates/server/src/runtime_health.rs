//! Whether the container runtime answers, for `/readyz`. All callers share one query, so that more callers do not mean
//! more queries to a runtime that hangs, and no caller waits long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use gantry_runtime::{Runtime, RuntimeError, RuntimeResult};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

/// How long an answer is used again. A question without an answer by then is dropped: its answer would be out of date.
const KEPT: Duration = Duration::from_secs(2);
/// After this long without an answer the runtime counts as unresponsive, and callers no longer wait.
const WAIT: Duration = Duration::from_secs(1);
/// The last query to the runtime, and its answer.
pub(crate) struct RuntimeHealth {
    runtime: Arc<dyn Runtime>,
    question: Mutex<Option<Question>>,
    failing: Arc<AtomicBool>,
}

#[derive(Clone)]
struct Question {
    asked: Instant,
    answer: Shared<BoxFuture<'static, RuntimeResult<()>>>,
}

impl RuntimeHealth {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, question: Mutex::default(), failing: Arc::default() }
    }

    /// Returns whether the runtime answers. The error is one line that anybody may see.
    pub(crate) fn ok(&self) -> BoxFuture<'static, Result<(), &'static str>> {
        let Question { asked, answer } = {
            let mut question = self.question.lock();
            question.take_if(|it| it.asked.elapsed() >= KEPT);
            question.get_or_insert_with(|| self.ask()).clone()
        };
        let failing = Arc::clone(&self.failing);
        async move {
            let silent = Err(RuntimeError::Timeout { action: "ask the version" });
            let answer = timeout_at(asked + WAIT, answer).await.unwrap_or(silent);
            note(&failing, &answer);
            answer.map_err(|error| public(&error))
        }
        .boxed()
    }

    fn ask(&self) -> Question {
        let runtime = Arc::clone(&self.runtime);
        let answer = async move { runtime.info().await.map(drop) };
        Question { asked: Instant::now(), answer: answer.boxed().shared() }
    }
}

/// Logs the error once each time that the runtime begins to fail, and once when it answers again.
fn note(failing: &AtomicBool, answer: &RuntimeResult<()>) {
    match answer {
        Ok(()) if failing.swap(false, Relaxed) => info!("the container runtime answers again"),
        Err(error) if !failing.swap(true, Relaxed) => {
            warn!(%error, "the container runtime does not answer as it should; told once until it does");
        }
        _ => {}
    }
}

/// Returns the part of an error that anybody may see: no path, and no text from the runtime. Operators find the
/// details in the log and in the system's capabilities.
fn public(error: &RuntimeError) -> &'static str {
    match error {
        RuntimeError::Unreachable { .. } => "it can't be reached",
        RuntimeError::PermissionDenied { .. } => "the gateway may not use it",
        RuntimeError::Timeout { .. } => "it does not answer",
        _ => "it answers with an error",
    }
}
