//! The answers that are being written now. They live here, not in the connection that asked for them: a client that leaves
//! and comes back finds its answer again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::body::Bytes;
use gantry_domain::{ApiError, ErrorCode, Timestamp, UserId, chat::ChatMessage};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::written::Written;
use crate::error::{Outcome, Problem};

/// Most answers of one user at the same time: some models side by side, in some tabs.
const OF_USER: usize = 16;

/// All answers that are being written, by chat. Clones share them.
#[derive(Clone, Default)]
pub struct Answers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    running: Mutex<HashMap<Uuid, Arc<Answer>>>,
    /// The tasks that write them.
    writers: TaskTracker,
}

/// What an answer was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) chat: Uuid,
    pub(crate) user: UserId,
    /// The message that the answer follows; 0: none.
    pub(crate) parent: i64,
    /// It is the rest of that message.
    pub(crate) continues: bool,
    /// Served name.
    pub(crate) model: String,
    pub(crate) started_at: Timestamp,
    pub(crate) request_id: String,
}

/// One answer: what was asked, and how far it is.
pub(crate) struct Answer {
    pub(crate) asked: Asked,
    pub(crate) progress: watch::Sender<Progress>,
    /// The ids of the messages that hold what has come so far.
    saved: Mutex<Vec<i64>>,
    stop: watch::Sender<bool>,
}

/// How far an answer is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) written: Written,
    /// Time from the request to the first piece.
    pub(crate) ttft: Option<Duration>,
    /// Time from the first piece to the end of the reasoning.
    pub(crate) reasoned: Option<Duration>,
    pub(crate) phase: Phase,
}

#[derive(Debug, Default)]
pub(crate) enum Phase {
    /// The engine has not begun to answer.
    #[default]
    Asked,
    Writing,
    /// The request was refused before anything came.
    Refused(Refusal),
    Ended(End),
}

/// An answer that is none: status, headers and body as `/v1/chat/completions` gave them.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Whole milliseconds, as the API writes durations.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What became of an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct End {
    /// The messages that were stored.
    pub(crate) messages: Vec<ChatMessage>,
    /// Why it ended early, or could not be stored.
    pub(crate) error: Option<Value>,
    /// The whole text, if it could not be stored.
    pub(crate) content: Option<String>,
}

impl Answers {
    /// Notes that an answer begins. It is over when the returned place is dropped.
    ///
    /// # Errors
    /// 409 `invalid_state` if the chat is being answered, or its user has too many answers at once.
    pub(super) fn begin(&self, asked: Asked) -> Outcome<Place> {
        let mut running = self.0.running.lock();
        if running.contains_key(&asked.chat) {
            let message = "this chat is being answered: wait for it, or stop it";
            return Err(Problem::new(ErrorCode::InvalidState, message));
        }
        if running.values().filter(|it| it.asked.user == asked.user).count() >= OF_USER {
            let message = format!("{OF_USER} answers are being written for you: wait for one, or stop one");
            return Err(Problem::new(ErrorCode::InvalidState, message));
        }
        let chat = asked.chat;
        let answer = Arc::new(Answer {
            asked,
            progress: watch::Sender::default(),
            saved: Mutex::default(),
            stop: watch::Sender::default(),
        });
        running.insert(chat, Arc::clone(&answer));
        drop(running);
        Ok(Place { answers: self.clone(), answer })
    }

    /// Returns the answer that is being written in a chat of the user.
    pub(super) fn of(&self, user: UserId, chat: Uuid) -> Option<Arc<Answer>> {
        self.0.running.lock().get(&chat).filter(|it| it.asked.user == user).map(Arc::clone)
    }

    /// Whether a chat is being answered.
    pub(super) fn is_answering(&self, chat: Uuid) -> bool {
        self.0.running.lock().contains_key(&chat)
    }

    /// Returns the ids of the messages of a chat that hold an answer as far as it has come. Until it has ended, readers of the
    /// chat get it from the answer's events instead.
    pub(super) fn unfinished(&self, chat: Uuid) -> Vec<i64> {
        self.0.running.lock().get(&chat).map(|it| it.saved.lock().clone()).unwrap_or_default()
    }

    /// Stops all answers of a user.
    pub(super) fn stop_all(&self, user: UserId) {
        for answer in self.0.running.lock().values().filter(|it| it.asked.user == user) {
            answer.stop();
        }
    }

    /// Runs the task that writes an answer.
    pub(super) fn spawn(&self, writer: impl Future<Output = ()> + Send + 'static) {
        self.0.writers.spawn(writer);
    }

    /// Waits until no answer is being written any more.
    pub async fn settled(&self) {
        self.0.writers.close();
        self.0.writers.wait().await;
    }
}

/// The place of an answer among those that are being written.
pub(super) struct Place {
    answers: Answers,
    pub(super) answer: Arc<Answer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.answers.0.running.lock().remove(&self.answer.asked.chat);
        // Followers must not wait for an answer whose task has died.
        self.answer.progress.send_if_modified(|it| {
            let died = matches!(it.phase, Phase::Asked | Phase::Writing);
            if died {
                let error = ApiError::internal().body(&self.answer.asked.request_id)["error"].take();
                let content = Some(it.written.content());
                it.phase = Phase::Ended(End { messages: Vec::new(), error: Some(error), content });
            }
            died
        });
    }
}

impl Answer {
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn note_saved(&self, message: i64) {
        self.saved.lock().push(message);
    }

    /// Waits until somebody stops the answer.
    pub(super) async fn stopped(&self) {
        // The sender is a field of this value.
        let _ = self.stop.subscribe().wait_for(|it| *it).await;
    }

    /// Waits until the engine has begun to answer, or has refused.
    pub(super) async fn begun(&self) -> Result<(), Refusal> {
        let mut progress = self.progress.subscribe();
        let begun = progress.wait_for(|it| !matches!(it.phase, Phase::Asked)).await;
        match begun.as_deref().map(|it| &it.phase) {
            Ok(Phase::Refused(refusal)) => Err(refusal.clone()),
            _ => Ok(()),
        }
    }
}

impl Refusal {
    /// A refusal of this gateway, in the form of all errors.
    pub(super) fn of(problem: &Problem, request_id: &str) -> Self {
        let body = problem.0.body(request_id).to_string().into();
        let status =
            StatusCode::from_u16(problem.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, headers: HeaderMap::new(), body }
    }
}
