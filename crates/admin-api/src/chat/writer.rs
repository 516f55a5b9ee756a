//! Writes one answer: asks the gateway's own `/v1/chat/completions` as the signed-in user, so that limits, budgets and
//! metering hold as for any request, reads the stream, and stores the answer while it comes and when it ends, however that is.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::StreamExt;
use gantry_domain::{
    ErrorCode,
    chat::{ChatMessage, ChatRole},
    view,
};
use http::{HeaderName, Request, header};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    answers::{Answer, End, Phase, Place, Progress, Refusal, millis},
    change_message, store_message,
    written::{Ending, Events, Took, ToolCall, Written},
};
use crate::{App, error::Problem, ports::BodyParts};

/// Longest message that is stored, in bytes of UTF-8: less than a message may have in characters. A longer answer is stored
/// as several.
const PART: usize = 190_000;
/// How often what has come is stored, so that it survives the gateway's end.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Longest answer that is no stream, and longest refusal, in bytes.
const WHOLE: usize = 4 << 20;
/// Most tool calls and bytes of their arguments that are kept with a message, whose metrics have 8 KiB in all.
const CALLS_KEPT: usize = 8;
const ARGUMENTS_KEPT: usize = 600;
const ERROR_KEPT: usize = 1000;
/// Headers of a refusal that are passed on.
const PASSED: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::RETRY_AFTER,
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("x-should-retry"),
];

view! {
    /// How an answer went. Times are in milliseconds.
    #[derive(Debug)]
    pub(super) struct AnswerMetrics {
        /// The message that it follows.
        parent: i64,
        /// It is the rest of the message that it follows.
        continues: Option<bool> => optional,
        model: String,
        ttft_ms: Option<u64> => optional,
        total_ms: u64,
        reasoning_ms: Option<u64> => optional,
        prompt_tokens: Option<u64> => optional,
        completion_tokens: u64,
        /// The engine did not count: the tokens are pieces of the stream.
        estimated: Option<bool> => optional,
        /// The pace of all tokens but the first, whose time is the TTFT.
        tokens_per_second: Option<f64> => optional,
        ending: Ending,
        error: Option<String> => optional,
        request_id: String,
        tool_calls: Option<Vec<ToolCall>> => optional,
    }
}

/// How the reading of an answer ended.
struct Read {
    ending: Ending,
    error: Option<Value>,
}

impl Read {
    fn ended(ending: Ending) -> Self {
        Self { ending, error: None }
    }

    /// The engine or the gateway reports an error.
    fn broken_off(error: Value) -> Self {
        let is_ours = error.get("code").and_then(Value::as_str) == Some(ErrorCode::ShuttingDown.as_str());
        let ending = if is_ours { Ending::Interrupted } else { Ending::Error };
        Self { ending, error: Some(error) }
    }

    /// The gateway ends it, for a reason that people can read.
    fn failed(message: &str) -> Self {
        let error = json!({ "message": message, "type": "api_error", "param": null, "code": null });
        Self { ending: Ending::Error, error: Some(error) }
    }
}

/// Writes the answer to its end. The place among the running answers is free when this ends.
pub(super) async fn write(app: App, place: Place, request: Request<Bytes>) {
    let answer = Arc::clone(&place.answer);
    let started = Instant::now();
    let over = CancellationToken::new();
    let reading = async {
        let read = tokio::select! {
            () = answer.stopped() => Ok(Read::ended(Ending::Stopped)),
            read = read(&app, &answer, request, started) => read,
        };
        over.cancel();
        read
    };
    let (read, mut saved) = tokio::join!(reading, save_while_it_comes(&app, &answer, started, &over));
    let phase = match read {
        Err(refusal) => Phase::Refused(refusal),
        Ok(read) => Phase::Ended(store(&app, &answer, read, started.elapsed(), &mut saved).await),
    };
    answer.progress.send_modify(|it| it.phase = phase);
}

async fn read(
    app: &App,
    answer: &Answer,
    request: Request<Bytes>,
    started: Instant,
) -> Result<Read, Refusal> {
    let response = app.inference.send(request).await;
    let response = response.map_err(|error| Refusal::of(&error.into(), &answer.asked.request_id))?;
    let (head, mut body) = response.into_parts();
    if !head.status.is_success() {
        let body = whole(&mut body).await.unwrap_or_default();
        let headers = head.headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
        let headers = headers.filter(|(name, _)| PASSED.contains(name)).collect();
        return Err(Refusal { status: head.status, headers, body });
    }
    answer.progress.send_modify(|it| it.phase = Phase::Writing);
    let is_stream = head
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        let Some(body) = whole(&mut body).await else { return Ok(Read::ended(Ending::Interrupted)) };
        let took = take(answer, &[String::from_utf8_lossy(&body).into_owned()], started);
        return Ok(took.unwrap_or_else(|| complete(answer)));
    }
    let mut events = Events::default();
    while let Some(Ok(bytes)) = body.next().await {
        let Some(data) = events.push(&bytes) else {
            return Ok(Read::failed("the engine sent an event that is too long"));
        };
        if let Some(ended) = take(answer, &data, started) {
            return Ok(ended);
        }
    }
    Ok(Read::ended(Ending::Interrupted))
}

/// Reads a body that is no stream; `None` if it breaks off or is too long.
async fn whole(body: &mut BodyParts) -> Option<Bytes> {
    let mut all = Vec::new();
    while let Some(part) = body.next().await {
        all.extend_from_slice(&part.ok()?);
        if all.len() > WHOLE {
            return None;
        }
    }
    Some(all.into())
}

/// The end of an answer that is complete.
fn complete(answer: &Answer) -> Read {
    Read::ended(answer.progress.borrow().written.ending.unwrap_or(Ending::Stop))
}

/// Adds events to the answer. Returns how it ended, if it did.
fn take(answer: &Answer, events: &[String], started: Instant) -> Option<Read> {
    if events.is_empty() {
        return None;
    }
    let mut ended = None;
    answer.progress.send_modify(|progress| {
        for data in events {
            let took = progress.written.take(data);
            progress.note_times(started.elapsed());
            ended = match took {
                Took::More => continue,
                Took::Done => Some(Read::ended(progress.written.ending.unwrap_or(Ending::Stop))),
                Took::Error(error) => Some(Read::broken_off(error)),
                Took::TooLong => Some(Read::failed("the answer is longer than a chat can keep")),
            };
            break;
        }
    });
    ended
}

impl Progress {
    fn note_times(&mut self, elapsed: Duration) {
        if self.written.pieces == 0 {
            return;
        }
        let ttft = *self.ttft.get_or_insert(elapsed);
        let reasoned = !self.written.reasoning.is_empty()
            && (!self.written.text.is_empty() || !self.written.tools.is_empty());
        if reasoned {
            self.reasoned.get_or_insert(elapsed.saturating_sub(ttft));
        }
    }
}

/// Stores what has come of the answer from time to time, until it is over. Returns the messages that hold it.
async fn save_while_it_comes(
    app: &App,
    answer: &Answer,
    started: Instant,
    over: &CancellationToken,
) -> Vec<ChatMessage> {
    let (mut saved, mut pieces) = (Vec::new(), 0);
    while over.run_until_cancelled(tokio::time::sleep(SAVE_EVERY)).await.is_some() {
        let now = answer.progress.borrow().written.pieces;
        if now == pieces {
            continue;
        }
        let so_far = Read::ended(Ending::Interrupted);
        // If it can't be stored, the next attempt or the one at its end may succeed, or tells why not.
        if let Some(text) = Text::of(answer, &so_far, started.elapsed())
            && text.save(app, answer, &mut saved, false).await.is_ok()
        {
            pieces = now;
        }
    }
    saved
}

/// Stores the whole answer, if there is anything to store.
async fn store(app: &App, answer: &Answer, read: Read, total: Duration, saved: &mut Vec<ChatMessage>) -> End {
    let Some(text) = Text::of(answer, &read, total) else {
        return End { error: read.error, ..End::default() };
    };
    match text.save(app, answer, saved, true).await {
        Ok(()) => End { messages: std::mem::take(saved), error: read.error, content: None },
        Err((n, problem)) => {
            let messages: Vec<_> = saved.drain(..n).collect();
            let stored: usize = messages.iter().map(|it| it.content.len()).sum();
            End {
                error: Some(problem.0.body(&answer.asked.request_id)["error"].take()),
                content: text.content.get(stored..).map(str::to_owned),
                messages,
            }
        }
    }
}

/// An answer as it is stored.
struct Text {
    content: String,
    metrics: Map<String, Value>,
}

impl Text {
    /// `None`: there is nothing to store.
    fn of(answer: &Answer, read: &Read, total: Duration) -> Option<Self> {
        let progress = answer.progress.borrow();
        if progress.written.is_empty() {
            return None;
        }
        // The database keeps no NUL.
        let content = progress.written.content().replace('\0', "\u{fffd}");
        Some(Self { content, metrics: metrics(answer, &progress, read, total) })
    }

    /// Stores it as one message or several. `saved` has those that hold an earlier state of it. If it is not `complete`, only
    /// messages whose text has changed are written.
    ///
    /// # Errors
    /// How many messages were stored, and why not the next one.
    async fn save(
        &self,
        app: &App,
        answer: &Answer,
        saved: &mut Vec<ChatMessage>,
        complete: bool,
    ) -> Result<(), (usize, Problem)> {
        let (user, chat) = (answer.asked.user, answer.asked.chat);
        let mut parent = answer.asked.parent;
        for (n, part) in parts(&self.content).into_iter().enumerate() {
            let mut metrics = self.metrics.clone();
            if n > 0 {
                metrics.insert("parent".to_owned(), parent.into());
                metrics.insert("continues".to_owned(), true.into());
            }
            let message = ChatMessage {
                id: saved.get(n).map_or(0, |it| it.id),
                role: ChatRole::Assistant,
                content: part.to_owned(),
                metrics: Some(metrics),
                created_at: app.clock.now(),
            };
            match saved.get_mut(n) {
                Some(before) if !complete && before.content == message.content => {}
                Some(before) => {
                    change_message(app, user, chat, &message).await.map_err(|problem| (n, problem))?;
                    let created_at = before.created_at;
                    *before = ChatMessage { created_at, ..message };
                }
                None => {
                    let message = store_message(app, user, chat, message).await;
                    let message = message.map_err(|problem| (n, problem))?;
                    answer.note_saved(message.id);
                    saved.push(message);
                }
            }
            parent = saved.get(n).map_or(parent, |it| it.id);
        }
        Ok(())
    }
}

fn metrics(answer: &Answer, progress: &Progress, read: &Read, total: Duration) -> Map<String, Value> {
    let (asked, written) = (&answer.asked, &progress.written);
    let tokens = written.completion_tokens.unwrap_or(written.pieces);
    let writing = progress.ttft.map_or(0.0, |it| total.saturating_sub(it).as_secs_f64());
    let message = read.error.as_ref().and_then(|it| it.get("message")).and_then(Value::as_str);
    // Without an answer to it, the reasoning lasted until the end.
    let reasoned = progress.reasoned.or_else(|| Some(total.saturating_sub(progress.ttft?)));
    let view = AnswerMetrics {
        parent: asked.parent,
        continues: asked.continues.then_some(true),
        model: asked.model.clone(),
        ttft_ms: progress.ttft.map(millis),
        total_ms: millis(total),
        reasoning_ms: reasoned.filter(|_| !written.reasoning.is_empty()).map(millis),
        prompt_tokens: written.prompt_tokens,
        completion_tokens: tokens,
        estimated: written.completion_tokens.is_none().then_some(true),
        tokens_per_second: (tokens > 1 && writing > 0.0)
            .then(|| ((tokens - 1) as f64 / writing * 100.0).round() / 100.0),
        ending: read.ending,
        error: message.map(|it| short(it, ERROR_KEPT)),
        request_id: asked.request_id.clone(),
        tool_calls: kept_calls(written),
    };
    match json!(view) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn kept_calls(written: &Written) -> Option<Vec<ToolCall>> {
    let kept = |it: &ToolCall| ToolCall {
        name: short(&it.name, 100),
        arguments: short(&it.arguments, ARGUMENTS_KEPT),
    };
    let calls: Vec<_> = written.tools.iter().take(CALLS_KEPT).map(kept).collect();
    (!calls.is_empty()).then_some(calls)
}

fn short(text: &str, most: usize) -> String {
    if text.len() <= most {
        text.to_owned()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(most)])
    }
}

/// Cuts a text into parts of at most [`PART`] bytes.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while rest.len() > PART {
        let (part, more) = rest.split_at(rest.floor_char_boundary(PART));
        parts.push(part);
        rest = more;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_between_characters() {
        // With one byte before them, a cut at that length would go through a character.
        let long = format!("x{}", "ä".repeat(PART));
        let parts = parts(&long);
        assert_eq!(parts.concat(), long);
        assert!(parts.len() == 3 && parts.iter().all(|it| it.len() <= PART));
        assert_eq!(super::parts(""), [""]);
    }
}
