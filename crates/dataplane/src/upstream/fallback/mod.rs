//! Chats with a model that has no chat template: vLLM refuses them, so they go to its completions with a plain prompt,
//! and the answer is made to look like a chat's. An [`crate::Upstream`] remembers that the template is missing, as it
//! lives as long as its container.

mod reply;
mod request;

use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint, usage::Outcome};
use http::{Response, StatusCode, header};

use crate::{
    record::meter::{End, Meter},
    request::{
        deadline::{Deadline, Over},
        inference::{self, Wanted},
        token_estimate::estimate_tokens,
    },
    response::{
        answer::{self, Answer},
        errors::shutting_down,
        headers,
        refusal::{self, Refusal, Unread},
        tokens::UsageScanner,
    },
    upstream::{breaker::Verdict, engine_error, forward::EngineHeaders},
};

pub(crate) use reply::Chunks;
pub(crate) use request::completion;

/// Longest plain answer, in bytes, that is held in memory to be reshaped.
const MAX_ANSWER: usize = 64 << 20;

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
pub fn as_completion(status: u16, answer: &[u8], chat: &[u8]) -> Option<bytes::Bytes> {
    missing(status, answer).and_then(|_| completion(chat))
}

/// Asks for a completion with `body`, and answers as a chat would.
pub(crate) async fn serve(
    mut meter: Box<Meter>,
    mut deadline: Deadline,
    head: EngineHeaders,
    mut wanted: Wanted,
    body: bytes::Bytes,
) -> Response<Answer> {
    let sent = inference::send(&mut meter, &mut deadline, &head, &mut wanted, Endpoint::Completions, &body);
    let reply = match sent.await {
        Ok(reply) => reply,
        Err(failure) => {
            let refusal = refusal::failed(&failure, &meter);
            return refusal::refuse_with_row(&mut meter, refusal);
        }
    };
    if !reply.answer.status().is_success() {
        return match refusal::read_refusal(&mut deadline, reply, &meter).await {
            Ok(refused) => refusal::engine_refused(meter, refused),
            Err(refusal) => refusal::refuse_with_row(&mut meter, refusal),
        };
    }
    if reply.answer.headers().get(header::CONTENT_TYPE).is_some_and(headers::is_event_stream) {
        return inference::pass(meter, deadline, reply, &wanted, Some(Box::default()));
    }
    deadline.restart(wanted.route.stream_idle_timeout);
    let bytes = match deadline.limit(refusal::read_all(reply, &meter, MAX_ANSWER)).await {
        Ok(Ok(bytes)) => bytes,
        problem => {
            let refusal = unread(&problem, &meter);
            return refusal::refuse_with_row(&mut meter, refusal);
        }
    };
    let Some(chat) = reply::chat(&bytes) else {
        let error =
            ApiError::new(ErrorCode::BadUpstream, "the model's engine gave an answer that is no completion");
        return refusal::refuse_with_row(
            &mut meter,
            Refusal { verdict: Some(Verdict::Success), ..error.into() },
        );
    };
    let mut scanner = UsageScanner::new(Endpoint::Completions.counted());
    scanner.feed(&bytes);
    let size = bytes.len() as u64;
    let tokens = meter.reconcile_tokens(scanner.found(), true, size, estimate_tokens(size));
    let verdict = Some(Verdict::Success);
    meter.finish(&End { status: 200, outcome: Outcome::Ok, tokens, ttft: None, verdict });
    let mut answer = answer::json(StatusCode::OK, &meter.request_id, chat);
    if meter.is_simulated() {
        headers::simulated(answer.headers_mut());
    }
    answer
}

const BROKE_OFF: &str = "the model's engine broke off its answer";

fn unread<T>(problem: &Result<Result<T, Unread>, Over>, meter: &Meter) -> Refusal {
    let (error, verdict) = match problem {
        Err(Over::Cut) => {
            return Refusal { outcome: Outcome::UpstreamError, ..shutting_down().into() };
        }
        Err(Over::TimedOut) => (
            ApiError::new(ErrorCode::UpstreamTimeout, "the model's engine fell silent"),
            Some(Verdict::Failure),
        ),
        Ok(Err(Unread::TooLong)) => (
            ApiError::new(ErrorCode::BadUpstream, "the model's engine gave too long an answer"),
            Some(Verdict::Success),
        ),
        Ok(_) => refusal::broke_off(meter, BROKE_OFF),
    };
    Refusal { verdict, ..error.into() }
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
