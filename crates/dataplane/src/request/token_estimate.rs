//! What a request may use: the tokens that are reserved for it, the most that an engine can have used for it, and an
//! estimate of its use if no count is known.

use std::time::Duration;

use gantry_domain::{endpoint::Endpoint, model::Task};

use crate::{catalog::Route, request::peek::Peek};

/// Tokens that are reserved for an answer if the request sets no limit for it. Engines then allow it to fill the rest
/// of the context, which answers hardly ever do.
const UNSAID_ANSWER: u64 = 512;
/// Tokens of an answer that a plain request without a limit is given time for, before its engine is considered stalled.
const UNSAID_PATIENCE: u64 = 2048;
/// Context length in tokens that is assumed for models with an unknown one; no model's is longer.
const MAX_CONTEXT: u64 = 16 << 20;

/// For estimates: bytes of English text per token, roughly, with today's vocabularies.
const BYTES_PER_TOKEN: u64 = 4;

/// Estimates how many tokens a text of `bytes` bytes has.
pub(crate) fn estimate_tokens(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
}

/// What a request may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenEstimate {
    /// At least 1.
    pub prompts: u64,
    /// Answers to each prompt; at least 1.
    choices: u64,
    /// The longest answer that the client allows, in tokens.
    max_tokens: Option<u64>,
    prompt_bytes: u64,
    body_bytes: u64,
    /// Context length of the model, in tokens.
    context: Option<u64>,
    /// Its answer is made of tokens.
    generates: bool,
}

impl TokenEstimate {
    pub(crate) fn new(endpoint: Endpoint, route: &Route, peeked: &Peek<'_>, body_bytes: u64) -> Self {
        let defaults = route.request_defaults.as_deref().filter(|_| endpoint.takes_defaults());
        let choices = peeked.choices.or_else(|| defaults?.choices());
        let several = matches!(endpoint, Endpoint::ChatCompletions | Endpoint::Completions);
        let prompts = if endpoint == Endpoint::Completions { peeked.prompts } else { 1 };
        Self {
            prompts,
            choices: choices.filter(|_| several).unwrap_or(1).max(1),
            max_tokens: peeked.max_tokens.or_else(|| defaults?.max_tokens()),
            prompt_bytes: peeked.prompt_bytes,
            body_bytes,
            context: route.max_model_len.and_then(|it| u64::try_from(it).ok()),
            generates: endpoint.runs_model() && endpoint.task() == Some(Task::Generate),
        }
    }

    /// Answers to all prompts together.
    pub(crate) fn answers(&self) -> u64 {
        self.prompts.saturating_mul(self.choices)
    }

    /// Size of the request's body.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Estimates how many tokens the prompts have.
    pub(crate) fn prompt_tokens(&self) -> u64 {
        estimate_tokens(self.body_bytes)
    }

    pub(crate) fn generates(&self) -> bool {
        self.generates
    }

    /// Returns the longest that one answer may get, in tokens, if the request has a limit.
    pub(crate) fn longest(&self) -> Option<u64> {
        self.max_tokens.map(|it| it.min(self.context()))
    }

    fn context(&self) -> u64 {
        self.context.unwrap_or(MAX_CONTEXT)
    }

    /// Estimates how many tokens the request will use: its prompts by the size of its body, and the longest answers
    /// that it allows.
    pub(crate) fn reservation(&self) -> u64 {
        let prompt = self.prompt_tokens().min(self.context().saturating_mul(self.prompts));
        if !self.generates {
            return prompt;
        }
        let answer = self.max_tokens.unwrap_or(UNSAID_ANSWER).min(self.context());
        prompt.saturating_add(answer.saturating_mul(self.answers()))
    }

    /// Returns the most tokens that the engine may generate before a plain answer ends.
    pub(crate) fn patience(&self) -> u64 {
        if !self.generates {
            return 0;
        }
        self.longest().unwrap_or(UNSAID_PATIENCE.min(self.context())).saturating_mul(self.answers())
    }

    /// Estimates how many tokens the prompts after the first one have.
    pub(crate) fn further_prompts(&self) -> u64 {
        let further = self.prompts - 1;
        estimate_tokens(self.prompt_bytes / self.prompts.max(1) * further).max(further)
    }

    /// Returns whether an engine can have read this number of prompt tokens.
    pub(crate) fn may_read(&self, tokens: u64) -> bool {
        // If the endpoint does not generate, each input is a prompt of its own, and a query is read once for each
        // document.
        let prompts = if self.generates { self.prompts } else { (self.body_bytes / 2).max(1) };
        tokens <= self.context().saturating_mul(prompts)
    }

    /// Returns whether an engine can have written this number of tokens, in an answer of `bytes` bytes. llama-server
    /// can be made to go on past the end of its context; each token is at least one byte then.
    pub(crate) fn may_write(&self, tokens: u64, bytes: u64) -> bool {
        tokens <= bytes.max(self.context().saturating_mul(self.answers()))
    }

    /// Estimates how many tokens an engine wrote in `time` at `rate` (tokens a second, of one answer), if no count was
    /// seen.
    pub(crate) fn written(&self, time: Duration, rate: f64) -> u64 {
        if !self.generates {
            return 0;
        }
        let one = (time.as_secs_f64() * rate).ceil() as u64;
        one.min(self.longest().unwrap_or(self.context())).saturating_mul(self.answers())
    }
}

#[cfg(test)]
impl Default for TokenEstimate {
    /// Makes the value for a request of which nothing is known.
    fn default() -> Self {
        Self {
            prompts: 1,
            choices: 1,
            max_tokens: None,
            prompt_bytes: 0,
            body_bytes: 0,
            context: None,
            generates: false,
        }
    }
}

#[cfg(test)]
impl TokenEstimate {
    pub(crate) fn of_prompts(prompts: u64) -> Self {
        Self { prompts, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: TokenEstimate = TokenEstimate {
        prompts: 1,
        choices: 1,
        max_tokens: Some(900),
        prompt_bytes: 0,
        body_bytes: 400,
        context: Some(4096),
        generates: true,
    };

    #[test]
    fn all_answers_to_all_prompts_are_reserved() {
        assert_eq!(CHAT.reservation(), 1_000);
        assert_eq!(TokenEstimate { choices: 4, ..CHAT }.reservation(), 3_700);
        assert_eq!(TokenEstimate { prompts: 3, choices: 2, ..CHAT }.reservation(), 5_500);
        assert_eq!(TokenEstimate { max_tokens: None, prompts: 2, ..CHAT }.reservation(), 1_124);
        // Each answer is bounded by the context, and their sum by the largest number.
        assert_eq!(TokenEstimate { max_tokens: Some(u64::MAX), choices: 2, ..CHAT }.reservation(), 8_292);
        let most = TokenEstimate { max_tokens: Some(u64::MAX), prompts: u64::MAX, context: None, ..CHAT };
        assert_eq!(most.reservation(), u64::MAX);
    }

    #[test]
    fn what_nobody_saw_is_time_by_rate_and_at_most_what_was_allowed() {
        let seconds = Duration::from_secs;
        assert_eq!(CHAT.written(seconds(3), 50.0), 150);
        assert_eq!(TokenEstimate { choices: 4, ..CHAT }.written(seconds(3), 50.0), 600);
        assert_eq!(CHAT.written(seconds(3_600), 50.0), 900);
        assert_eq!(TokenEstimate { max_tokens: None, ..CHAT }.written(seconds(3_600), 50.0), 4_096);
        assert_eq!(TokenEstimate { generates: false, ..CHAT }.written(seconds(3), 50.0), 0);
    }
}
