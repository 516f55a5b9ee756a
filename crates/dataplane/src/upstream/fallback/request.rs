//! Turns a chat's request into one for a completion. Parameters that both have keep their bytes.
//!
//! This runs on a data-plane thread, so the size of the chat is bounded, and of its messages only the texts are kept: a
//! value in memory for everything that stands in them would take a hundred times their size.

mod message;

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::Value;

use crate::request::peek;
use message::Message;

/// Longest chat, in bytes, that is turned into a completion.
const MAX_CHAT: usize = 2 << 20;

/// Parameters that only chats have, or that only completions have and that mean nothing in a chat. Those that are added
/// anew are here too.
const DROPPED: &[&str] = &[
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "documents",
    "reasoning_effort",
    "include_reasoning",
    "mm_processor_kwargs",
    "media_io_kwargs",
    "modalities",
    "audio",
    "prediction",
    "verbosity",
    "web_search_options",
    "store",
    "metadata",
    "prompt",
    "prompt_embeds",
    "echo",
    "suffix",
    "max_tokens",
    "max_completion_tokens",
    "logprobs",
    "top_logprobs",
];

/// Returns the body for `/v1/completions`; `None` if the chat can't be written as plain text (no messages, an image) or
/// is longer than 2 MiB, so that the engine has to refuse it.
pub(crate) fn completion(chat: &[u8]) -> Option<Bytes> {
    if chat.len() > MAX_CHAT {
        return None;
    }
    let members = peek::members(chat)?;
    // The last one counts, as for the engines' parsers.
    let last = |name: &str| members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value);
    let set = |name: &str| last(name).filter(|it| *it != "null");
    let messages: Vec<Message<'_>> = serde_json::from_str(last("messages")?).ok()?;
    let prompt = Value::from(prompt(&messages)?);

    let mut out = String::with_capacity(chat.len() + 64);
    out.push('{');
    for (key, value) in members.iter().filter(|(key, _)| !DROPPED.contains(&&**key)) {
        let _ = write!(out, "{}:{value},", Value::from(&**key));
    }
    // A chat may go on to the end of the context; a completion has 16 tokens unless it says otherwise, and `null` is
    // the way to say so (`max_tokens: int | None = 16` in vllm/entrypoints/openai/completion/protocol.py @ 002032ee).
    let limit = set("max_completion_tokens").or_else(|| set("max_tokens")).unwrap_or("null");
    let _ = write!(out, "\"max_tokens\":{limit},");
    if set("logprobs") == Some("true") {
        let _ = write!(out, "\"logprobs\":{},", set("top_logprobs").unwrap_or("0"));
    }
    let _ = write!(out, "\"prompt\":{prompt}}}");
    Some(out.into())
}

/// `System: …\n\nUser: …\n\nAssistant:`
fn prompt(messages: &[Message<'_>]) -> Option<String> {
    let mut out = String::new();
    for message in messages {
        let role = speaker(message.role.as_deref()?)?;
        if !message.content.0.is_empty() {
            let _ = write!(out, "{role}: {}\n\n", message.content.0);
        }
    }
    if out.is_empty() {
        return None;
    }
    out.push_str("Assistant:");
    Some(out)
}

fn speaker(role: &str) -> Option<String> {
    let role = if role == "developer" { "system" } else { role };
    let mut chars = role.chars();
    let first = chars.next()?.to_uppercase();
    Some(first.chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(body: &str) -> Option<String> {
        completion(body.as_bytes()).map(|it| String::from_utf8(it.to_vec()).unwrap())
    }

    #[test]
    fn messages_become_one_prompt_and_parameters_stay() {
        let body = r#"{ "model":"m", "messages":[
            {"role":"system","content":"Be brief."},
            {"role":"user","content":[{"type":"text","text":"Hello "},{"type":"text","text":"\"you\""}]},
            {"role":"assistant","content":null,"tool_calls":[]},
            {"role":"assistant","content":"Hi."},
            {"role":"user","content":"More"}],
            "temperature" : 0.10, "seed":1e3, "tools":[], "tool_choice":"none", "stream":true,
            "response_format":{"type":"json_object"}, "max_tokens":7, "x\u0022":null }"#;
        assert_eq!(
            told(body).unwrap(),
            concat!(
                r#"{"model":"m","temperature":0.10,"seed":1e3,"stream":true,"response_format":{"type":"json_object"},"#,
                r#""x\"":null,"max_tokens":7,"#,
                r#""prompt":"System: Be brief.\n\nUser: Hello \"you\"\n\nAssistant: Hi.\n\nUser: More\n\nAssistant:"}"#
            )
        );
    }

    #[test]
    fn limits_and_probabilities_have_other_names() {
        let get = |members: &str| -> Value {
            let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}]{members}}}"#);
            serde_json::from_str(&told(&body).unwrap()).unwrap()
        };
        assert_eq!(get("")["max_tokens"], Value::Null);
        assert_eq!(get("").as_object().unwrap().get("logprobs"), None);
        assert_eq!(get(r#","max_completion_tokens":3,"max_tokens":9"#)["max_tokens"], 3);
        assert_eq!(get(r#","logprobs":true,"top_logprobs":2"#)["logprobs"], 2);
        assert_eq!(get(r#","logprobs":true"#)["logprobs"], 0);
        assert_eq!(get(r#","logprobs":false"#).as_object().unwrap().get("logprobs"), None);
        assert_eq!(get("")["prompt"], json!("User: x\n\nAssistant:"));
    }

    #[test]
    fn what_is_no_text_can_not_be_told() {
        for messages in [
            "[]",
            "null",
            r#"[{"role":"user"}]"#,
            r#"[{"content":"x"}]"#,
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]"#,
            r#"[{"role":"user","content":7}]"#,
            r#"[{"role":"user","content":[0,0]}]"#,
            r#"[{"role":"user","content":[{"type":"text"}]}]"#,
            r#"[{"role":"user","content":[{"text":"x"}]}]"#,
            r#"[{"role":["user"],"content":"x"}]"#,
        ] {
            assert_eq!(told(&format!(r#"{{"model":"m","messages":{messages}}}"#)), None, "{messages}");
        }
        assert_eq!(told(r#"{"model":"m"}"#), None);
        let long = |n: usize| format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "x".repeat(n));
        assert!(told(&long(MAX_CHAT - 100)).is_some());
        assert_eq!(told(&long(MAX_CHAT)), None);
    }
}
