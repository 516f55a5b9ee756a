//! Whether the container runtime answers, for everybody who asks `/readyz`: one question for all of them, so that an
//! engine that hangs is not asked more the more want to know, and nobody waits for it for long.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use gantry_runtime::{Runtime, RuntimeError, RuntimeResult};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

/// How long an answer is used again. A question without an answer by then is dropped: its answer would be out of date.
const KEPT: Duration = Duration::from_secs(2);
/// After this long without an answer the runtime counts as unresponsive, and callers no longer wait.
const WAIT: Duration = Duration::from_secs(1);
/// The last question, and what it brought.
pub(crate) struct RuntimeLook {
    runtime: Arc<dyn Runtime>,
    question: Mutex<Option<Question>>,
    failing: Arc<AtomicBool>,
}

#[derive(Clone)]
struct Question {
    asked: Instant,
    answer: Shared<BoxFuture<'static, RuntimeResult<()>>>,
}

impl RuntimeLook {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, question: Mutex::default(), failing: Arc::default() }
    }

    /// Whether it answers; the error is one line for anybody.
    pub(crate) fn ok(&self) -> BoxFuture<'static, Result<(), &'static str>> {
        let Question { asked, answer } = {
            let mut question = self.question.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The log has what is wrong, once for each time that it begins.
fn note(failing: &AtomicBool, answer: &RuntimeResult<()>) {
    match answer {
        Ok(()) if failing.swap(false, Relaxed) => info!("the container runtime answers again"),
        Err(error) if !failing.swap(true, Relaxed) => {
            warn!(%error, "the container runtime does not answer as it should; told once until it does");
        }
        _ => {}
    }
}

/// What of an error anybody may know: neither a path nor what the engine said. Operators have the log and the capabilities
/// of the system.
fn public(error: &RuntimeError) -> &'static str {
    match error {
        RuntimeError::Unreachable { .. } => "it can't be reached",
        RuntimeError::PermissionDenied { .. } => "the gateway may not use it",
        RuntimeError::Timeout { .. } => "it does not answer",
        _ => "it answers with an error",
    }
}
