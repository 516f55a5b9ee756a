//! `/v1/chat/sessions/{id}/completions`: answers that the gateway writes, and that go on when the page which asked for
//! them is closed or loaded again.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint, schema, view};
use serde_json::{Map, Value, json};
use tokio::{
    sync::watch,
    time::{Instant, Interval, sleep_until},
};

use super::{
    answers::{Answer, Asked, End, Phase, Progress, Refusal, millis},
    fields::{AnyObject, MessageId},
    missing,
    view::MessageView,
    writer,
    written::ToolCall,
};
use crate::{
    App,
    caller::{Caller, Grant},
    doc::inference,
    error::{Outcome, Problem},
    event_stream::{COMMENT, COMMENT_EVERY, EventStream, checks},
    operation::{Body, Doc, Either, Operation, Output, UuidId, form},
    seats::Seat,
    server_events::messages,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

form! {
    pub(crate) struct Completion {
        /// The request, as `POST /v1/chat/completions` takes it. The gateway sets `stream` and `stream_options`, and takes
        /// the chat's model if it names none.
        request: required AnyObject,
        /// The id of the message that the answer follows; 0: none. The newest message, unless it is given.
        parent: optional MessageId,
        /// Whether the answer is the rest of that message.
        continues: optional bool,
    }
}

view! {
    /// The first event of every connection.
    #[derive(Debug)]
    pub(crate) struct Begin {
        /// The message that the answer follows; 0: none.
        parent: i64 as schema::whole(0, i64::MAX),
        /// It is the rest of that message.
        continues: bool,
        /// Served name.
        model: String,
        started_at: i64 as schema::epoch_ms(),
        request_id: String,
    }
}

view! {
    /// What has come of one tool call since the last event.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct ToolPart {
        /// Which call of the answer it is, from 0.
        index: u64,
        /// What follows its name so far.
        name: Option<String> => optional,
        /// What follows its arguments so far.
        arguments: Option<String> => optional,
    }
}

view! {
    /// What has come since the last event.
    #[derive(Debug)]
    pub(crate) struct Delta {
        /// What follows the reasoning so far.
        reasoning: Option<String> => optional,
        /// What follows the text so far.
        text: Option<String> => optional,
        /// What has come of tool calls.
        tool_calls: Option<Vec<ToolPart>> => optional,
        /// Pieces so far: about one for each token.
        tokens: u64,
        /// Milliseconds from the request to the first piece.
        ttft_ms: Option<u64> => optional,
        /// Milliseconds from the first piece to the end of the reasoning, once it has ended.
        reasoning_ms: Option<u64> => optional,
    }
}

view! {
    /// The last event.
    #[derive(Debug)]
    pub(crate) struct Ended {
        /// The messages that were stored: none if nothing came, several if the answer is very long.
        messages: Vec<MessageView>,
        /// Why it ended early, or could not be stored: an object as in every error.
        error: Option<Value> as json!({ "type": ["object", "null"] }),
        /// What could not be stored.
        content: Option<String>,
    }
}

messages! {
    AnswerEvent: "ChatAnswerEvent";
    /// What is being answered.
    Begin(Begin) = "begin";
    /// The next part.
    Delta(Delta) = "delta";
    /// It is over.
    End(Ended) = "end";
}

/// What the engine, or the gateway before it, answered instead.
pub(crate) struct Refused(Refusal);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0.status, self.0.headers, self.0.body).into_response()
    }
}

impl Output for Refused {
    fn describe(doc: &mut Doc) {
        doc.errors.extend(inference::ERRORS);
        doc.with_status = inference::ENGINES;
    }
}

pub(crate) const ANSWER: Operation = Operation::new("answerInChat", "Have a model answer in a chat")
    .about(
        "The gateway asks the model as you, and stores the answer as a message when it ends, however it ends; it goes on when \
         the client leaves. Its events are `begin`, `delta` for each part, and `end` with the messages that were stored. \
         If the request is refused before anything came, the answer is that of `POST /v1/chat/completions`.",
    )
    .errors(&[
        ErrorCode::InvalidState,
        ErrorCode::TooManyStreams,
        ErrorCode::StreamsExhausted,
    ]);

pub(crate) async fn answer(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
    headers: HeaderMap,
    Body(Completion { request, parent, continues }): Body<Completion>,
) -> Outcome<Either<EventStream<AnswerEvent>, Refused>> {
    let mut tx = app.store.read().await?;
    let chat = tx.chat(caller.user.id, id).await?.ok_or_else(|| missing(id))?;
    let newest = tx.newest_chat_message(id).await?;
    drop(tx);
    let parent = parent.unwrap_or(newest);
    let request = prepared(request, &chat.model_name);
    let model = request.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let request_id = headers.get(REQUEST_ID).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
    let seat = caller.take_seat(&app.bounds.seats)?;
    let place = app.answers.begin(Asked {
        chat: id,
        user: caller.user.id,
        parent,
        continues: continues.unwrap_or_default(),
        model,
        started_at: app.clock.now(),
        request_id,
    })?;
    let answer = Arc::clone(&place.answer);
    // Subscribed before it is written, so that nothing can end unseen.
    let reader = Reader::new(&app, &caller, &answer, seat);
    app.answers.spawn(writer::write(app.0.clone(), place, as_user(&headers, &request)?));
    match answer.begun().await {
        Ok(()) => Ok(Either::First(reader.into_answer())),
        Err(refusal) => Ok(Either::Second(Refused(refusal))),
    }
}

/// Returns the request as it is sent: as a stream, with the engine's own counts.
fn prepared(mut request: Map<String, Value>, model: &str) -> Map<String, Value> {
    request.entry("model").or_insert_with(|| model.into());
    request.insert("stream".to_owned(), true.into());
    request.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    request
}

/// Returns the request for the data plane, which admits it by the caller's own session.
fn as_user(headers: &HeaderMap, body: &Map<String, Value>) -> Outcome<Request<Bytes>> {
    let mut request =
        Request::post(Endpoint::ChatCompletions.path()).header(header::CONTENT_TYPE, "application/json");
    for name in [header::COOKIE, REQUEST_ID] {
        for value in headers.get_all(&name) {
            request = request.header(&name, value);
        }
    }
    let body = Bytes::from(serde_json::to_vec(body).map_err(|_| ApiError::internal())?);
    request.body(body).map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the headers can't be passed on"))
}

pub(crate) const FOLLOW: Operation = Operation::new("followChatAnswer", "Follow the answer that a chat gets")
    .about("The events of the answer that is being written, from its beginning. 204 if the chat is not being answered (any more).")
    .errors(&[ErrorCode::TooManyStreams, ErrorCode::StreamsExhausted]);

pub(crate) async fn follow(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
) -> Outcome<Either<EventStream<AnswerEvent>, NothingToFollow>> {
    let Some(answer) = app.answers.of(caller.user.id, id) else {
        let chat = app.store.read().await?.chat(caller.user.id, id).await?;
        return chat.map(|_| Either::Second(NothingToFollow)).ok_or_else(|| missing(id));
    };
    let seat = caller.take_seat(&app.bounds.seats)?;
    Ok(Either::First(Reader::new(&app, &caller, &answer, seat).into_answer()))
}

/// 204: an answer may end between the moment at which a client hears of it and the moment at which the client asks for
/// it, so this is no error. An `EventSource` ends at a 204 and does not connect again (HTML standard, section 9.2.3).
pub(crate) struct NothingToFollow;

impl IntoResponse for NothingToFollow {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Output for NothingToFollow {
    fn describe(doc: &mut Doc) {
        doc.answered_empty(204, "The chat is not being answered.");
    }
}

view! {
    pub(crate) struct Stopped {
        status: &'static str as schema::constant("stopped"),
    }
}

pub(crate) const STOP: Operation = Operation::new("stopChatAnswer", "Stop the answer that a chat gets")
    .about("What has come is stored. 404 if the chat is not being answered.");

pub(crate) async fn stop(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
) -> Outcome<axum::Json<Stopped>> {
    app.answers.of(caller.user.id, id).ok_or_else(not_answering)?.stop();
    Ok(axum::Json(Stopped { status: "stopped" }))
}

fn not_answering() -> Problem {
    Problem::new(ErrorCode::NotFound, "this chat is not being answered")
}

/// One connection that follows an answer. It remembers what it has sent, so a slow reader gets larger parts, and nothing
/// waits for it.
struct Reader {
    app: App,
    grant: Grant,
    _seat: Seat,
    answer: Arc<Answer>,
    progress: watch::Receiver<Progress>,
    sent: Sent,
    is_begun: bool,
    is_over: bool,
    check: Interval,
    silent_since: Instant,
}

/// How much of an answer a reader has got: lengths in bytes.
#[derive(Debug, Default)]
struct Sent {
    reasoning: usize,
    text: usize,
    /// Bytes of each tool call's name and arguments.
    tools: Vec<(usize, usize)>,
    pieces: u64,
    reasoned: bool,
}

impl Reader {
    fn new(app: &App, caller: &Caller, answer: &Arc<Answer>, seat: Seat) -> Self {
        let mut progress = answer.progress.subscribe();
        // What was there before counts as news.
        progress.mark_changed();
        Self {
            app: app.clone(),
            grant: caller.grant.clone(),
            _seat: seat,
            answer: Arc::clone(answer),
            progress,
            sent: Sent::default(),
            is_begun: false,
            is_over: false,
            check: checks(),
            silent_since: Instant::now(),
        }
    }

    fn into_answer(self) -> EventStream<AnswerEvent> {
        EventStream::with_end(self.stream())
    }

    fn stream(self) -> impl Stream<Item = Result<String, Infallible>> {
        stream::unfold(self, async |mut reader| {
            let text = reader.next().await?;
            reader.silent_since = Instant::now();
            Some((Ok(text), reader))
        })
    }

    /// Returns what is sent next; `None` ends the connection.
    async fn next(&mut self) -> Option<String> {
        if !self.is_begun {
            self.is_begun = true;
            let asked = &self.answer.asked;
            let begin = Begin {
                parent: asked.parent,
                continues: asked.continues,
                model: asked.model.clone(),
                started_at: asked.started_at.0,
                request_id: asked.request_id.clone(),
            };
            return Some(AnswerEvent::Begin(begin).text(None));
        }
        while !self.is_over {
            tokio::select! {
                // The session is checked first, so that its user sees nothing more once it has ended.
                biased;
                _ = self.check.tick() => {
                    if !self.grant.holds(&self.app).await {
                        return None;
                    }
                }
                changed = self.progress.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                    let text = self.news();
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                () = sleep_until(self.silent_since + COMMENT_EVERY) => return Some(COMMENT.to_owned()),
            }
        }
        None
    }

    /// Returns the events for what has come since the last ones.
    fn news(&mut self) -> String {
        let progress = self.progress.borrow_and_update();
        let mut text = String::new();
        if let Some(delta) = self.sent.delta(&progress) {
            text += &AnswerEvent::Delta(delta).text(None);
        }
        let end = match &progress.phase {
            Phase::Asked | Phase::Writing => return text,
            Phase::Ended(end) => end.clone(),
            // For those who came back while the request was on its way; the client that asked has the refusal itself.
            Phase::Refused(refusal) => End { error: error_in(&refusal.body), ..End::default() },
        };
        drop(progress);
        self.is_over = true;
        let End { messages, error, content } = end;
        let messages = messages.into_iter().map(MessageView::of).collect();
        text += &AnswerEvent::End(Ended { messages, error, content }).text(None);
        text
    }
}

/// The error object of a refusal.
fn error_in(body: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(body).ok()?.get_mut("error").map(Value::take)
}

impl Sent {
    /// Returns what is new, and counts it as sent.
    fn delta(&mut self, progress: &Progress) -> Option<Delta> {
        let written = &progress.written;
        let now = Self {
            reasoning: written.reasoning.len(),
            text: written.text.len(),
            tools: written.tools.iter().map(|it| (it.name.len(), it.arguments.len())).collect(),
            pieces: written.pieces,
            reasoned: progress.reasoned.is_some(),
        };
        let before = std::mem::replace(self, now);
        (before.pieces != written.pieces).then(|| Delta {
            reasoning: more(&written.reasoning, before.reasoning),
            text: more(&written.text, before.text),
            tool_calls: Some(parts(&written.tools, &before.tools)).filter(|it| !it.is_empty()),
            tokens: written.pieces,
            ttft_ms: progress.ttft.filter(|_| before.pieces == 0).map(millis),
            reasoning_ms: progress.reasoned.filter(|_| !before.reasoned).map(millis),
        })
    }
}

/// Returns what of `all` follows its first `from` bytes, if anything does.
fn more(all: &str, from: usize) -> Option<String> {
    all.get(from..).filter(|it| !it.is_empty()).map(str::to_owned)
}

/// Returns what is new of the calls, if `sent` of them were sent.
fn parts(calls: &[ToolCall], sent: &[(usize, usize)]) -> Vec<ToolPart> {
    let mut parts = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let (name, arguments) = sent.get(at).copied().unwrap_or_default();
        let index = at as u64;
        let part =
            ToolPart { index, name: more(&call.name, name), arguments: more(&call.arguments, arguments) };
        if part.name.is_some() || part.arguments.is_some() {
            parts.push(part);
        }
    }
    parts
}
