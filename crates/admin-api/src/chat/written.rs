//! What an answer consists of so far, read from the stream of `/v1/chat/completions`. Engines write what they like: an
//! event of another form adds nothing.

use gantry_domain::{
    schema::{Components, Shape, one_of},
    view,
};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Most bytes of an answer. Together with its question it must fit into a chat.
const LONGEST: usize = 3 << 20;
/// Longest event of an engine, in bytes.
const LONGEST_EVENT: usize = 4 << 20;
/// Most tool calls of one answer.
const MOST_CALLS: usize = 128;

view! {
    /// A call of a tool that the model asks for.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct ToolCall {
        pub(crate) name: String,
        /// JSON, as far as it has come.
        pub(crate) arguments: String,
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
    /// For a reason that the engine gave and that is none of those above.
    Other,
    /// The user stopped it.
    Stopped,
    /// It broke off: the engine or the gateway was stopped, or the session ended.
    Interrupted,
    /// The engine, or the gateway, reported an error.
    Error,
}

impl Ending {
    const ALL: [Self; 8] = [
        Self::Stop,
        Self::Length,
        Self::ToolCalls,
        Self::ContentFilter,
        Self::Other,
        Self::Stopped,
        Self::Interrupted,
        Self::Error,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }

    /// The ending that an engine's `finish_reason` stands for.
    fn of(reason: &str) -> Self {
        let engines = [Self::Stop, Self::Length, Self::ToolCalls, Self::ContentFilter];
        engines.into_iter().find(|it| it.as_str() == reason).unwrap_or(Self::Other)
    }
}

impl Serialize for Ending {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl Shape for Ending {
    fn schema(_: &mut Components) -> Value {
        one_of(&Self::ALL.map(Self::as_str))
    }
}

/// An answer, as far as it has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    pub(crate) reasoning: String,
    pub(crate) text: String,
    pub(crate) tools: Vec<ToolCall>,
    /// Events that brought text: about one for each token.
    pub(crate) pieces: u64,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) ending: Option<Ending>,
}

/// What an event meant for the answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Took {
    /// It goes on.
    More,
    /// It is complete.
    Done,
    /// The engine or the gateway reports an error, as an error object.
    Error(Value),
    /// The answer has become too long.
    TooLong,
}

impl Written {
    /// Whether there is anything to keep.
    pub(crate) fn is_empty(&self) -> bool {
        self.reasoning.is_empty() && self.text.is_empty() && self.tools.is_empty()
    }

    /// Adds the data of one event, or the whole answer of an engine that does not stream.
    pub(crate) fn take(&mut self, data: &str) -> Took {
        if data == "[DONE]" {
            return Took::Done;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else { return Took::More };
        if let Some(error) = chunk.get("error").filter(|it| !it.is_null()) {
            return Took::Error(error.clone());
        }
        let tokens = |name: &str| chunk.get("usage")?.get(name)?.as_u64();
        self.prompt_tokens = tokens("prompt_tokens").or(self.prompt_tokens);
        self.completion_tokens = tokens("completion_tokens").or(self.completion_tokens);
        let Some(choice) = chunk.get("choices").and_then(|it| it.get(0)) else { return Took::More };
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.add(delta);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.ending = Some(Ending::of(reason));
        }
        let calls: usize = self.tools.iter().map(|it| it.name.len() + it.arguments.len()).sum();
        if self.reasoning.len() + self.text.len() + calls > LONGEST { Took::TooLong } else { Took::More }
    }

    fn add(&mut self, delta: &Value) {
        let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        // vLLM has called it `reasoning` since 0.11, llama.cpp and others `reasoning_content`.
        let thought =
            Some(text("reasoning")).filter(|it| !it.is_empty()).unwrap_or_else(|| text("reasoning_content"));
        let said = text("content");
        self.reasoning += thought;
        self.text += said;
        let calls = delta.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for call in calls {
            self.add_call(call);
        }
        if !(thought.is_empty() && said.is_empty() && calls.is_empty()) {
            self.pieces += 1;
        }
    }

    fn add_call(&mut self, call: &Value) {
        let index = call.get("index").and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
        let index = index.unwrap_or(self.tools.len());
        if index >= MOST_CALLS {
            return;
        }
        if self.tools.len() <= index {
            self.tools.resize(index + 1, ToolCall::default());
        }
        let part = |name: &str| {
            let function = call.get("function")?;
            function.get(name)?.as_str()
        };
        if let Some(of) = self.tools.get_mut(index) {
            of.name += part("name").unwrap_or_default();
            of.arguments += part("arguments").unwrap_or_default();
        }
    }

    /// Reasoning and text as one message: reasoning stands in front, as many models write it themselves.
    pub(crate) fn content(&self) -> String {
        if self.reasoning.is_empty() {
            return self.text.clone();
        }
        format!("<think>\n{}\n</think>\n\n{}", self.reasoning, self.text)
    }
}

/// Takes a stream of server-sent events apart.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The line that has not ended yet.
    line: Vec<u8>,
    data: Option<String>,
}

impl Events {
    /// Takes the next bytes, and returns the data of the events that they complete. `None` if an event is too long to be
    /// one of an engine's.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<Vec<String>> {
        let mut complete = Vec::new();
        for part in bytes.split_inclusive(|it| *it == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > LONGEST_EVENT {
                return None;
            }
            if !part.ends_with(b"\n") {
                break;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(line.trim_ascii_end());
            if line.is_empty() {
                complete.extend(self.data.take());
            } else if let Some(data) = line.strip_prefix("data:") {
                let data = data.strip_prefix(' ').unwrap_or(data);
                match &mut self.data {
                    Some(before) => {
                        before.push('\n');
                        before.push_str(data);
                    }
                    None => self.data = Some(data.to_owned()),
                }
            }
        }
        Some(complete)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delta(delta: &Value) -> String {
        json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string()
    }

    #[test]
    fn an_answer_grows_by_reasoning_text_and_tool_calls() {
        let mut answer = Written::default();
        for part in [
            json!({ "role": "assistant", "content": null }),
            json!({ "reasoning": "Hm" }),
            json!({ "reasoning_content": "m." }),
            json!({ "content": "Hel" }),
            json!({ "content": "lo" }),
            json!({ "tool_calls": [{ "index": 1, "function": { "name": "add", "arguments": "{\"a\"" } }] }),
            json!({ "tool_calls": [{ "index": 1, "function": { "arguments": ":1}" } }, "nonsense"] }),
        ] {
            assert_eq!(answer.take(&delta(&part)), Took::More);
        }
        assert_eq!((answer.reasoning.as_str(), answer.text.as_str(), answer.pieces), ("Hmm.", "Hello", 6));
        assert_eq!(answer.tools[1], ToolCall { name: "add".into(), arguments: "{\"a\":1}".into() });
        assert_eq!(answer.content(), "<think>\nHmm.\n</think>\n\nHello");
        let last = json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] });
        answer.take(&last.to_string());
        answer.take(
            &json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 7 } }).to_string(),
        );
        assert_eq!(
            (answer.ending, answer.prompt_tokens, answer.completion_tokens),
            (Some(Ending::Length), Some(5), Some(7))
        );
        assert_eq!(answer.take("[DONE]"), Took::Done);
    }

    #[test]
    fn what_is_no_part_of_an_answer_adds_nothing() {
        let mut answer = Written::default();
        for data in
            ["", "nonsense", "[]", "7", r#"{"choices":7}"#, r#"{"choices":[{"delta":{"content":7}}]}"#]
        {
            assert_eq!(answer.take(data), Took::More, "{data}");
        }
        assert!(answer.is_empty() && answer.pieces == 0);
        let call = json!({ "tool_calls": [{ "index": u64::MAX, "function": { "name": "x" } }] });
        answer.take(&delta(&call));
        assert!(answer.is_empty());
        let error = json!({ "error": { "message": "out of memory" } });
        assert_eq!(answer.take(&error.to_string()), Took::Error(error["error"].clone()));
        let long = delta(&json!({ "content": "x".repeat(LONGEST + 1) }));
        assert_eq!(answer.take(&long), Took::TooLong);
    }

    #[test]
    fn events_are_found_wherever_the_stream_is_cut() {
        let stream = ": hello\r\n\r\ndata: {\"a\":\"ä\"}\r\n\r\nevent: x\ndata:one\ndata: two\n\ndata: last\n\nid: 7\n\n";
        let expected = ["{\"a\":\"ä\"}", "one\ntwo", "last"];
        for cut in 0..stream.len() {
            let (mut events, (one, two)) = (Events::default(), stream.as_bytes().split_at(cut));
            let mut found = events.push(one).unwrap();
            found.extend(events.push(two).unwrap());
            assert_eq!(found, expected, "cut at {cut}");
        }
        assert_eq!(Events::default().push(&vec![b'x'; LONGEST_EVENT + 1]), None);
    }
}
