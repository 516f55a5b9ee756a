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
use gantry_runtime::{Runtime, RuntimeError};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

/// An answer is good for so long.
const KEPT: Duration = Duration::from_secs(2);
/// So long after it was asked the runtime counts as silent. Who asks then is told so without a wait.
const WAIT: Duration = Duration::from_secs(1);
/// A question without an answer is asked anew after this time, which is more than the runtime gives itself.
const GIVEN_UP: Duration = Duration::from_secs(6);
/// For whoever asks: what it is about is in the log and, for operators, in the capabilities of the system.
const SILENT: &str = "it does not answer";

/// What of an error anybody may know: neither paths nor what the engine said.
type Verdict = Result<(), &'static str>;

/// The last question, and what it brought.
pub(crate) struct RuntimeLook {
    runtime: Arc<dyn Runtime>,
    question: Mutex<Option<Question>>,
    failing: Arc<AtomicBool>,
}

#[derive(Clone)]
struct Question {
    asked: Instant,
    answer: Shared<BoxFuture<'static, Verdict>>,
}

impl Question {
    fn is_old(&self) -> bool {
        let limit = if self.answer.peek().is_some() { KEPT } else { GIVEN_UP };
        self.asked.elapsed() >= limit
    }
}

impl RuntimeLook {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, question: Mutex::default(), failing: Arc::default() }
    }

    /// Whether it answers; the error is one line for anybody.
    pub(crate) fn ok(&self) -> BoxFuture<'static, Verdict> {
        let Question { asked, answer } = {
            let mut question = self.question.lock().unwrap_or_else(PoisonError::into_inner);
            question.take_if(|it| it.is_old());
            question.get_or_insert_with(|| self.ask()).clone()
        };
        timeout_at(asked + WAIT, answer).map(|it| it.unwrap_or(Err(SILENT))).boxed()
    }

    fn ask(&self) -> Question {
        let (runtime, failing) = (Arc::clone(&self.runtime), Arc::clone(&self.failing));
        let answer = async move {
            let answer = runtime.info().await;
            match &answer {
                Ok(_) if failing.swap(false, Relaxed) => info!("the container runtime answers again"),
                Err(error) if !failing.swap(true, Relaxed) => {
                    warn!(%error, "the container runtime does not answer as it should; told once until it does");
                }
                _ => {}
            }
            answer.map(drop).map_err(|error| public(&error))
        };
        Question { asked: Instant::now(), answer: answer.boxed().shared() }
    }
}

fn public(error: &RuntimeError) -> &'static str {
    match error {
        RuntimeError::Unreachable { .. } => "it can't be reached",
        RuntimeError::PermissionDenied { .. } => "the gateway may not use it",
        RuntimeError::Timeout { .. } => SILENT,
        _ => "it answers with an error",
    }
}
