//! The lengths of the texts of a plain answer. llama-server (b11434) counts only the first choice in `usage` when it was
//! asked for several (`n`, or several prompts), so the others have to be estimated; and where an engine reports no usage,
//! its texts are all there is to estimate by.

use crate::{
    request::token_estimate::TokenEstimate,
    response::passing_json::{PassingJson, Token},
};

/// Longest word that matters, and one byte more.
const MAX_WORD: usize = 14;

/// What is known of one choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Choice {
    /// Characters (escapes are one) of its texts, in bytes.
    bytes: u64,
    /// It ended because it had reached the longest length.
    full: bool,
}

/// Fed with the answer piece by piece, wherever frames end.
#[derive(Debug, Default)]
pub(crate) struct ChoiceLengths {
    json: PassingJson<MAX_WORD>,
    /// The next value is that of `choices`.
    awaited: bool,
    /// The array of the choices is open. Its depth is 2, that of a choice 3.
    inside: bool,
    /// The member of the current choice that the next value belongs to.
    member: ChoiceMember,
    choice: Choice,
    first: Option<Choice>,
    /// The choices after the first one.
    others: Vec<Choice>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ChoiceMember {
    #[default]
    Other,
    FinishReason,
    /// It repeats the text, so its strings are not counted.
    Logprobs,
    /// It is no text of the model's.
    Name,
}

impl ChoiceLengths {
    /// Returns the length of all texts together, in bytes.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.first.iter().chain(&self.others).map(|it| it.bytes).sum()
    }

    /// Returns the tokens of all choices, if `counted` is the engine's count for the first one, and whether the total
    /// is exact. `None` if there is only one choice.
    pub(crate) fn total(&self, counted: i64, estimate: &TokenEstimate) -> Option<(i64, bool)> {
        let first = self.first?;
        if self.others.is_empty() {
            return None;
        }
        let (counted, longest) = (u64::try_from(counted).ok()?, estimate.longest());
        // All answers to one prompt have the same length limit.
        let same = estimate.prompts == 1 && first.full;
        let estimated = |it: &Choice| {
            let alike = it.bytes.saturating_mul(counted).checked_div(first.bytes).unwrap_or(0);
            alike.max(it.bytes / 4).max(1)
        };
        let tokens = |it: &Choice| match longest {
            _ if it.full && same => counted,
            Some(longest) if it.full => longest,
            Some(longest) => estimated(it).min(longest),
            None => estimated(it),
        };
        let total = self.others.iter().map(tokens).fold(counted, u64::saturating_add);
        let exact = same && self.others.iter().all(|it| it.full);
        Some((i64::try_from(total).unwrap_or(i64::MAX), exact))
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            for (token, depth) in self.json.step(byte) {
                self.take(token, depth);
            }
        }
    }

    fn take(&mut self, token: Token, depth: usize) {
        let awaited = std::mem::take(&mut self.awaited);
        match token {
            Token::Key => self.key(depth),
            Token::String if self.inside && depth >= 3 => self.text(),
            Token::OpensArray if awaited => self.inside = true,
            Token::OpensObject | Token::OpensArray if self.inside && depth == 3 => {
                (self.choice, self.member) = (Choice::default(), ChoiceMember::Other);
            }
            Token::Closes if self.inside && depth == 3 => {
                if self.first.is_none() {
                    self.first = Some(self.choice);
                } else {
                    self.others.push(self.choice);
                }
            }
            Token::Closes if depth == 2 => self.inside = false,
            _ => {}
        }
    }

    fn key(&mut self, depth: usize) {
        // Chats and completions have `choices`, `/v1/messages` has `content`, `/v1/responses` has `output`.
        self.awaited = depth == 1 && matches!(self.json.word(), b"choices" | b"content" | b"output");
        if !self.inside || depth < 3 || depth > 3 && self.member == ChoiceMember::Logprobs {
            return;
        }
        self.member = match self.json.word() {
            b"finish_reason" if depth == 3 => ChoiceMember::FinishReason,
            b"logprobs" => ChoiceMember::Logprobs,
            b"role" | b"type" | b"id" | b"object" | b"status" => ChoiceMember::Name,
            _ => ChoiceMember::Other,
        };
    }

    fn text(&mut self) {
        match self.member {
            ChoiceMember::FinishReason => self.choice.full = self.json.word() == b"length",
            ChoiceMember::Logprobs | ChoiceMember::Name => {}
            ChoiceMember::Other => self.choice.bytes += self.json.length(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> ChoiceLengths {
        let mut whole = ChoiceLengths::default();
        whole.feed(body.as_bytes());
        for cut in 0..body.len() {
            let (a, b) = body.as_bytes().split_at(cut);
            let mut cut = ChoiceLengths::default();
            cut.feed(a);
            cut.feed(b);
            assert_eq!((cut.first, &cut.others), (whole.first, &whole.others));
        }
        whole
    }

    #[test]
    fn texts_are_measured_and_nothing_else() {
        let body = r#"{"object":"text_completion","choices":[
            {"text":"abc\"\u00e4","index":0,"logprobs":{"tokens":["abc","\"a"]},"finish_reason":"stop"},
            {"finish_reason":"length","message":{"content":null,"tool_calls":[{"function":{"arguments":"{\"a\":1}"}}]}},
            {}],"usage":{"completion_tokens":3},"model":"a long name"}"#;
        let choices = read(body);
        assert_eq!(choices.first, Some(Choice { bytes: 9, full: false }));
        let others = [Choice { bytes: 7, full: true }, Choice::default()];
        assert_eq!(choices.others, others);
    }

    #[test]
    fn full_answers_to_one_prompt_are_exact_and_others_estimated() {
        let estimate = TokenEstimate::default();
        let full = r#"{"text":"0123456789","finish_reason":"length"}"#;
        let short = r#"{"text":"01234","finish_reason":"stop"}"#;
        let of = |choices: &[&str]| read(&format!(r#"{{"choices":[{}]}}"#, choices.join(",")));
        assert_eq!(of(&[full]).total(20, &estimate), None);
        assert_eq!(of(&[full, full, full]).total(20, &estimate), Some((60, true)));
        assert_eq!(of(&[full, short]).total(20, &estimate), Some((30, false)));
        assert_eq!(of(&[short, full]).total(1, &estimate), Some((3, false)));
        let two = TokenEstimate::of_prompts(2);
        assert_eq!(of(&[full, full]).total(20, &two), Some((40, false)));
        assert_eq!(of(&["{}", "{}"]).total(0, &two), Some((1, false)));
    }
}
