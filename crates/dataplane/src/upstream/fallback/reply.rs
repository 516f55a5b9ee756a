//! A completion's answer in the shape of a chat's, plain and streamed.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use crate::response::sse::event_end;

/// Longest event, in bytes, that is reshaped; a longer one passes as it is.
const MAX_EVENT: usize = 1 << 20;

/// The answer to a chat; `None` if this is no completion.
pub(super) fn chat(completion: &[u8]) -> Option<Bytes> {
    let mut answer: Value = serde_json::from_slice(completion).ok()?;
    reshape(&mut answer, "chat.completion", |_, text| {
        ("message", json!({"role": "assistant", "content": text, "refusal": null}))
    })?;
    Some(answer.to_string().into())
}

/// Events of a completion while they pass.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// An event whose end has not come.
    held: BytesMut,
    /// A bit for each choice that has begun.
    begun: u64,
}

impl Chunks {
    /// Adds a piece of the stream, and returns the whole events that go out now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Bytes {
        // The first place where a blank line can begin that was not complete before.
        let mut seen = self.held.len().saturating_sub(3);
        self.held.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(bytes.len() + 64);
        while let Some(end) = event_end(&self.held, seen) {
            let event = self.held.split_to(end);
            self.event(&event, &mut out);
            seen = 0;
        }
        if self.held.len() > MAX_EVENT {
            out.extend_from_slice(&self.held.split());
        }
        out.into()
    }

    /// Returns what is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) {
        let chunk = event.strip_prefix(b"data:").and_then(|it| serde_json::from_slice::<Value>(it).ok());
        let Some(mut chunk) = chunk else { return out.extend_from_slice(event) };
        let reshaped = reshape(&mut chunk, "chat.completion.chunk", |index, text| {
            let bit = 1_u64.checked_shl(index as u32).unwrap_or(0);
            let first = self.begun & bit == 0;
            self.begun |= bit;
            let delta =
                if first { json!({"role": "assistant", "content": text}) } else { json!({"content": text}) };
            ("delta", delta)
        });
        match reshaped {
            Some(()) => out.extend_from_slice(format!("data: {chunk}\n\n").as_bytes()),
            // An error of the engine.
            None => out.extend_from_slice(event),
        }
    }
}

/// Changes an answer's choices; `said` makes the member that holds a choice's text, from its index and its text.
fn reshape(
    answer: &mut Value,
    object: &str,
    mut said: impl FnMut(u64, Value) -> (&'static str, Value),
) -> Option<()> {
    let choices = answer.get_mut("choices")?.as_array_mut()?;
    for choice in choices {
        let old = choice.as_object_mut()?;
        let text = old.get_mut("text")?.take();
        let index = old.get("index").and_then(Value::as_u64).unwrap_or(0);
        let (name, value) = said(index, text);
        let mut new = Map::new();
        new.insert("index".into(), index.into());
        new.insert(name.into(), value);
        for (key, value) in std::mem::take(old) {
            match key.as_str() {
                "text" | "index" => {}
                "logprobs" => drop(new.insert(key, logprobs(&value))),
                _ => drop(new.insert(key, value)),
            }
        }
        *old = new;
    }
    answer["object"] = object.into();
    Some(())
}

/// Turns the parallel lists of a completion's logprobs into one list of objects.
fn logprobs(old: &Value) -> Value {
    let Some(tokens) = old["tokens"].as_array() else { return Value::Null };
    let entry =
        |token: &str, logprob: &Value| json!({"token": token, "logprob": logprob, "bytes": token.as_bytes()});
    let content: Vec<_> = tokens
        .iter()
        .enumerate()
        .map(|(at, token)| {
            let mut entry_of_token = entry(token.as_str().unwrap_or_default(), &old["token_logprobs"][at]);
            let top = old["top_logprobs"][at].as_object();
            let top: Vec<_> =
                top.into_iter().flatten().map(|(token, logprob)| entry(token, logprob)).collect();
            entry_of_token["top_logprobs"] = top.into();
            entry_of_token
        })
        .collect();
    json!({ "content": content })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("../../../tests/transcripts/vllm-0.32.0-notemplate/completion.http");
    const STREAM: &str =
        include_str!("../../../tests/transcripts/vllm-0.32.0-notemplate/completion-stream-usage.http");

    fn body(transcript: &str) -> &str {
        transcript.split_once("\r\n\r\n").unwrap().1
    }

    #[test]
    fn a_recorded_completion_becomes_a_chat() {
        let old: Value = serde_json::from_str(body(RECORDED)).unwrap();
        let new: Value = serde_json::from_slice(&chat(body(RECORDED).as_bytes()).unwrap()).unwrap();
        assert_eq!((&new["id"], &new["usage"], &new["model"]), (&old["id"], &old["usage"], &old["model"]));
        assert_eq!(new["object"], "chat.completion");
        let choice = &new["choices"][0];
        assert_eq!(choice["message"]["content"], old["choices"][0]["text"]);
        assert_eq!(
            (&choice["message"]["role"], &choice["finish_reason"]),
            (&json!("assistant"), &json!("length"))
        );
        assert_eq!(choice.get("text"), None);
    }

    #[test]
    fn probabilities_become_a_list() {
        let old = json!({"choices": [{"index": 0, "text": "ab", "logprobs": {
            "tokens": ["a", "b"], "token_logprobs": [-0.5, -1.5], "text_offset": [0, 1],
            "top_logprobs": [{"a": -0.5, "c": -2.0}, null]}}]});
        let new: Value = serde_json::from_slice(&chat(old.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(
            new["choices"][0]["logprobs"],
            json!({"content": [
                {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [
                    {"token": "a", "logprob": -0.5, "bytes": [97]}, {"token": "c", "logprob": -2.0, "bytes": [99]}]},
                {"token": "b", "logprob": -1.5, "bytes": [98], "top_logprobs": []},
            ]})
        );
    }

    #[test]
    fn what_is_no_completion_is_none() {
        for body in ["", "[]", "{}", r#"{"choices":{}}"#, r#"{"choices":[{}]}"#, r#"{"choices":[1]}"#] {
            assert_eq!(chat(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn a_recorded_stream_becomes_a_chat_s_however_it_is_cut() {
        let stream = body(STREAM);
        let mut whole = Vec::new();
        for size in [1, 7, 100, stream.len()] {
            let mut chunks = Chunks::default();
            let mut out = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                out.extend_from_slice(&chunks.push(piece));
            }
            out.extend_from_slice(&chunks.finish());
            if whole.is_empty() {
                whole.clone_from(&out);
            }
            assert_eq!(out, whole, "{size}");
        }
        let text = String::from_utf8(whole).unwrap();
        let events: Vec<_> = text.trim_end().split("\n\n").collect();
        assert_eq!(events.last(), Some(&"data: [DONE]"));
        let parsed: Vec<Value> = events[..events.len() - 1]
            .iter()
            .map(|it| serde_json::from_str(it.strip_prefix("data: ").unwrap()).unwrap())
            .collect();
        assert!(parsed.iter().all(|it| it["object"] == "chat.completion.chunk"));
        let deltas: Vec<_> =
            parsed.iter().filter_map(|it| it["choices"].get(0)).map(|it| &it["delta"]).collect();
        assert_eq!(deltas[0], &json!({"role": "assistant", "content": ")"}));
        assert!(deltas[1..].iter().all(|it| **it == json!({"content": "I"})));
        assert_eq!(parsed.last().unwrap()["usage"]["completion_tokens"], 4);
    }

    #[test]
    fn other_events_pass() {
        let mut chunks = Chunks::default();
        for event in [": ping\n\n", "data: {\"error\":{\"message\":\"m\"}}\n\n", "data: [DONE]\r\n\r\n"] {
            assert_eq!(chunks.push(event.as_bytes()), event);
        }
    }
}
