//! Chats with a model that has no chat template: vLLM refuses them, so they go to its completions with a plain prompt,
//! and the answer is made to look like a chat's. An [`Upstream`](crate::Upstream) remembers that the template is
//! missing, as it lives as long as its container.

pub(crate) mod reply;
mod request;

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint, model::EngineKind, usage::Outcome};
use http::{Response, StatusCode, header};

use crate::{
    record::departed::{Departed, End},
    request::{
        deadline::{Deadline, Over},
        token_estimate::estimate_tokens,
    },
    response::{
        answer::{self, Answer},
        headers,
        refusal::{EngineRefusal, Refusal, Unread, read_all},
        tokens::UsageScanner,
    },
    upstream::{breaker::Verdict, engine_error, forward::Reply},
};

use reply::Chunks;
use request::completion;

/// Longest plain answer, in bytes, that is held in memory to be reshaped.
const MAX_ANSWER: usize = 4 << 20;

/// How a request is put to its engine.
pub(crate) enum Form {
    /// As the client put it.
    Asked,
    /// A chat as a completion, with this body.
    Completion(Bytes),
}

impl Form {
    /// Returns the form to begin with.
    pub(crate) fn first(departed: &Departed, body: &[u8]) -> Self {
        let lacks_template = departed.meter.head.endpoint == Endpoint::ChatCompletions
            && departed.upstream.lacks_chat_template.load(Relaxed);
        let body = if lacks_template { completion(body) } else { None };
        body.map_or(Self::Asked, Self::Completion)
    }

    /// Returns the form to try after the engine refused this one; `None` if there is none.
    pub(crate) fn instead(&self, departed: &Departed, body: &[u8], refused: &EngineRefusal) -> Option<Self> {
        if !matches!(self, Self::Asked)
            || departed.meter.head.endpoint != Endpoint::ChatCompletions
            || departed.route.engine != Some(EngineKind::Vllm)
        {
            return None;
        }
        let missing = missing(refused.status.as_u16(), &refused.body)?;
        let body = completion(body)?;
        if missing == Missing::Certain {
            departed.upstream.lacks_chat_template.store(true, Relaxed);
        }
        Some(Self::Completion(body))
    }

    /// Returns the endpoint of the engine, for a request to `asked`.
    pub(crate) fn endpoint(&self, asked: Endpoint) -> Endpoint {
        match self {
            Self::Asked => asked,
            Self::Completion(_) => Endpoint::Completions,
        }
    }

    /// Returns the body for the engine, for a request with `asked`.
    pub(crate) fn body<'a>(&'a self, asked: &'a Bytes) -> &'a Bytes {
        match self {
            Self::Asked => asked,
            Self::Completion(body) => body,
        }
    }

    /// Returns whether the whole of a good answer has to be read before the client's can be made, see [`answer_as_chat`].
    pub(crate) fn needs_whole(&self, reply: &Reply) -> bool {
        let kind = reply.answer.headers().get(header::CONTENT_TYPE);
        matches!(self, Self::Completion(_)) && !kind.is_some_and(headers::is_event_stream)
    }

    /// Returns what changes the events of a good answer on their way.
    pub(crate) fn chunks(&self) -> Option<Box<Chunks>> {
        matches!(self, Self::Completion(_)).then(Box::default)
    }
}

/// How an engine says that the model has no chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The words begin the message and so are vLLM's own: they hold for every chat. They are the same in vLLM 0.10 to
    /// 0.32 (facts/engines §2.1).
    Certain,
    /// vLLM may only be quoting the words from the request: they hold for this request alone. Otherwise one client
    /// could change the answers to all.
    Likely,
}

/// Returns whether and how an engine's answer says that the template is missing; `status` is the engine's.
pub(crate) fn missing(status: u16, body: &[u8]) -> Option<Missing> {
    if status != 400 {
        return None;
    }
    let message = engine_error::message(&serde_json::from_slice(body).ok()?)?;
    let known = message.contains("default chat template is no longer allowed");
    if known && message.starts_with("As of transformers v") {
        return Some(Missing::Certain);
    }
    let said = known || (message.contains("chat template") && message.contains("must provide"));
    said.then_some(Missing::Likely)
}

/// The body for `/v1/completions` in place of `chat`, if an engine's answer to it says that the model has no chat template.
pub fn as_completion(status: u16, answer: &[u8], chat: &[u8]) -> Option<Bytes> {
    missing(status, answer).and_then(|_| completion(chat))
}

/// Reads a whole completion, and answers as a chat would.
pub(crate) async fn answer_as_chat(
    mut departed: Departed,
    mut deadline: Deadline,
    reply: Reply,
) -> Response<Answer> {
    deadline.restart(departed.route.stream_idle_timeout);
    let bytes = match deadline.limit(read_all(reply, &departed, MAX_ANSWER)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(problem)) => return unread(problem, &departed).answer(departed),
        Err(Over::Cut) => return Refusal::cut().answer(departed),
        Err(Over::TimedOut) => {
            let error = ApiError::new(ErrorCode::UpstreamTimeout, "the model's engine fell silent");
            return Refusal::new(error, Some(Verdict::Failure)).answer(departed);
        }
    };
    let Some(chat) = reply::chat(&bytes) else {
        let message = "the model's engine gave an answer that is no completion";
        let error = ApiError::new(ErrorCode::BadUpstream, message);
        return Refusal::new(error, Some(Verdict::Success)).answer(departed);
    };
    let mut scanner = UsageScanner::new(Endpoint::Completions.counted());
    scanner.feed(&bytes);
    let size = bytes.len() as u64;
    let tokens = departed.reconcile_tokens(scanner.found(), true, size, estimate_tokens(size));
    let verdict = Some(Verdict::Success);
    departed.finish(&End { status: 200, outcome: Outcome::Ok, tokens, ttft: None, verdict });
    let mut answer = answer::json(StatusCode::OK, &departed.meter.origin.request_id, chat);
    if departed.route.simulator {
        headers::simulated(answer.headers_mut());
    }
    answer
}

fn unread(problem: Unread, departed: &Departed) -> Refusal {
    match problem {
        Unread::TooLong => {
            let error = ApiError::new(ErrorCode::BadUpstream, "the model's engine gave too long an answer");
            Refusal::new(error, Some(Verdict::Success))
        }
        Unread::Broken => {
            let (error, verdict) = departed.broke_off("the model's engine broke off its answer");
            Refusal::new(error, verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_template_is_known_by_what_vllm_says() {
        let said =
            |text: &str| format!(r#"{{"error":{{"message":"{text}","type":"BadRequestError","code":400}}}}"#);
        let recorded = "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.";
        let told = |status, text: &str| missing(status, said(text).as_bytes());
        assert_eq!(told(400, recorded), Some(Missing::Certain));
        assert_eq!(told(400, "you must provide a chat template"), Some(Missing::Likely));
        let quoting = format!("1 validation error: {{'loc': 'body.temperature', 'input': '{recorded}'}}");
        assert_eq!(told(400, &quoting), Some(Missing::Likely));
        assert_eq!(told(500, recorded), None);
        assert_eq!(told(400, "the chat template failed"), None);
        assert_eq!(missing(400, recorded.as_bytes()), None);
    }
}
