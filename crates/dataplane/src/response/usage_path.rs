//! Finds the `usage` objects of an answer by their position, for endpoints whose answers carry JSON that the client or
//! the model wrote (the tools of `/v1/responses`, the input of a tool of `/v1/messages`): a `usage` in there must not
//! count. The engine's own `usage` is in the outermost object, and in a stream in the `response` or `message` of an
//! event.

use crate::response::passing_json::{PassingJson, Token};

/// Longest `usage` object that is read, in bytes.
const MAX_OBJECT: usize = 4096;
/// Longest key that matters, and one byte more.
const MAX_WORD: usize = 9;

/// Fed with the answer piece by piece, wherever frames end.
#[derive(Debug)]
pub(crate) struct UsagePath {
    /// Server-sent events: each line of data is a text of its own.
    events: bool,
    json: PassingJson<MAX_WORD>,
    /// The key in the outermost object is one whose value may hold a `usage`.
    carries: bool,
    /// The next value is that of a `usage` that counts.
    awaited: bool,
    /// The `usage` that is being read, and its depth.
    object: Option<(Vec<u8>, usize)>,
}

impl UsagePath {
    pub(crate) fn new(events: bool) -> Self {
        Self { events, json: PassingJson::default(), carries: false, awaited: false, object: None }
    }

    /// Calls `found` with each whole `usage` object.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(&[u8])) {
        for &byte in bytes {
            if let Some((object, _)) = &mut self.object {
                object.push(byte);
                if object.len() > MAX_OBJECT {
                    self.object = None;
                }
            }
            if byte == b'\n' && self.events {
                *self = Self::new(true);
                continue;
            }
            for (token, depth) in self.json.step(byte) {
                self.take(token, depth, &mut found);
            }
        }
    }

    fn take(&mut self, token: Token, depth: usize, found: &mut impl FnMut(&[u8])) {
        match token {
            Token::Key if self.object.is_none() => {
                let counts = depth == 1 || self.events && depth == 2 && self.carries;
                self.awaited = counts && self.json.word() == b"usage";
                if depth == 1 {
                    self.carries = matches!(self.json.word(), b"response" | b"message");
                }
            }
            Token::OpensObject if self.awaited => {
                self.awaited = false;
                self.object = Some((vec![b'{'], depth));
            }
            Token::Closes => {
                if let Some((object, _)) = self.object.take_if(|(_, begun)| depth == *begun) {
                    found(&object);
                }
            }
            Token::Key => {}
            Token::OpensObject | Token::OpensArray | Token::String | Token::Bare => self.awaited = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(events: bool, text: &str) -> Vec<String> {
        let all = |cut: usize| {
            let (mut outline, mut found) = (UsagePath::new(events), Vec::new());
            let (a, b) = text.as_bytes().split_at(cut);
            for piece in [a, b] {
                outline.feed(piece, |it| found.push(String::from_utf8(it.to_vec()).unwrap()));
            }
            found
        };
        let whole = all(0);
        (1..=text.len()).for_each(|cut| assert_eq!(all(cut), whole, "cut at {cut}"));
        whole
    }

    #[test]
    fn only_the_engine_s_own_usage_counts() {
        let plain = r#"{"metadata":{"usage":{"a":1}},"tools":[{"parameters":{"usage":{"a":2}}}],
            "note":"\"usage\":{\"a\":3}", "usage" : {"a":4,"b":{"c":"}"}}, "content":[{"usage":{"a":5}}]}"#;
        assert_eq!(found(false, plain), [r#"{"a":4,"b":{"c":"}"}}"#]);
        let stream = "event: response.created\ndata: {\"type\":\"x\",\"response\":{\"usage\":null,\"tools\":[{\"usage\":\
                      {\"a\":1}}],\"metadata\":{\"usage\":{\"a\":2}}}}\n\ndata: {\"item\":{\"usage\":{\"a\":3}},\"delta\":\
                      {\"usage\":{\"a\":4}}}\n\ndata: {\"response\":{\"usage\":{\"a\":5}}}\n\ndata: {\"message\":{\"usage\":\
                      {\"a\":6}}}\n\ndata: {\"delta\":{},\"usage\":{\"a\":7}}\n\n";
        assert_eq!(found(true, stream), [r#"{"a":5}"#, r#"{"a":6}"#, r#"{"a":7}"#]);
        assert!(found(false, r#"{"response":{"usage":{"a":1}}}"#).is_empty());
    }

    #[test]
    fn a_broken_event_does_not_spoil_the_next() {
        let stream = "data: {\"response\":{\"x\":\"\n\ndata: {\"usage\":{\"a\":1}}\n\n";
        assert_eq!(found(true, stream), [r#"{"a":1}"#]);
        let long = format!("{{\"usage\":{{\"a\":\"{}\"}}}}", "x".repeat(MAX_OBJECT));
        let mut outline = UsagePath::new(false);
        outline.feed(long.as_bytes(), |_| panic!("it is too long"));
    }
}
