//! Chat answers in the form of vLLM, as recorded from 0.32.0.

use serde_json::{Map, Value, json};

use super::answer::{Choice, Piece, Plan, Shape, StreamUsage, Tally};
use crate::engine::Finish;
use crate::text;

pub(crate) struct VllmChat {
    pub plan: Plan,
}

impl VllmChat {
    fn chunk(&self, choices: Value, emitted: u32) -> Map<String, Value> {
        let mut chunk = Map::new();
        chunk.insert("id".into(), json!(self.plan.id));
        chunk.insert("object".into(), json!("chat.completion.chunk"));
        chunk.insert("created".into(), json!(self.plan.created));
        chunk.insert("model".into(), json!(self.plan.model));
        chunk.insert("choices".into(), choices);
        if self.plan.usage == StreamUsage::Every {
            let mut usage = usage(&self.plan, emitted);
            usage.insert("completion_tokens_details".into(), Value::Null);
            chunk.insert("usage".into(), Value::Object(usage));
        }
        chunk
    }

    /// Returns a chunk with one choice. The last chunk of an answer without a usage chunk has the fingerprint.
    fn delta(
        &self,
        index: usize,
        delta: &Value,
        logprobs: &Value,
        finish: Option<&Choice>,
        emitted: u32,
    ) -> String {
        let mut choice = Map::new();
        choice.insert("index".into(), json!(index));
        choice.insert("delta".into(), delta.clone());
        choice.insert("logprobs".into(), logprobs.clone());
        choice.insert("finish_reason".into(), json!(finish.map(|choice| choice.finish.name())));
        if let Some(choice_done) = finish {
            choice.insert("stop_reason".into(), json!(choice_done.stop_reason));
        }
        choice.insert("token_ids".into(), Value::Null);
        let mut chunk = self.chunk(json!([choice]), emitted);
        if finish.is_some() && self.plan.usage == StreamUsage::Nowhere {
            chunk.insert("system_fingerprint".into(), json!(self.plan.fingerprint));
        }
        event(&Value::Object(chunk))
    }
}

impl Shape for VllmChat {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn whole(&self, tally: &Tally) -> Value {
        let plan = &self.plan;
        let choices: Vec<Value> = plan
            .choices
            .iter()
            .enumerate()
            .map(|(index, choice)| {
                json!({
                    "index": index, "message": message(choice), "logprobs": logprobs(plan, &choice.pieces),
                    "finish_reason": choice.finish.name(), "stop_reason": choice.stop_reason, "token_ids": null,
                    "routed_experts": null
                })
            })
            .collect();
        json!({
            "id": plan.id, "object": "chat.completion", "created": plan.created, "model": plan.model,
            "choices": choices, "service_tier": null, "system_fingerprint": plan.fingerprint,
            "usage": full_usage(plan, tally.emitted), "prompt_logprobs": null, "prompt_token_ids": null,
            "prompt_text": null, "kv_transfer_params": null, "ec_transfer_params": null, "metrics": null
        })
    }

    fn begin(&mut self) -> Vec<String> {
        let begun = (0..self.plan.choices.len()).map(|index| {
            let choice = json!({
                "index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": null, "finish_reason": null
            });
            let mut chunk = self.chunk(json!([choice]), 0);
            chunk.insert("prompt_token_ids".into(), Value::Null);
            chunk.insert("prompt_text".into(), Value::Null);
            event(&Value::Object(chunk))
        });
        begun.collect()
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let Some(choice) = self.plan.choices.get(piece.choice) else { return Vec::new() };
        let Some(text) = choice.pieces.get(piece.index) else { return Vec::new() };
        let finish = piece.last.then_some(choice);
        let Some((id, name)) = &choice.call else {
            let logprobs = logprobs(&self.plan, std::slice::from_ref(text));
            return vec![self.delta(
                piece.choice,
                &json!({"content": text}),
                &logprobs,
                finish,
                piece.emitted,
            )];
        };
        let mut events = Vec::new();
        let mut say = |delta: &Value, finish| {
            events.push(self.delta(piece.choice, delta, &Value::Null, finish, piece.emitted));
        };
        if piece.index == 0 {
            let call = json!([{"id": id, "type": "function", "index": 0, "function": {"name": name}}]);
            say(&json!({"content": null, "tool_calls": call}), None);
        }
        say(&json!({"content": null, "tool_calls": [{"index": 0, "function": {"arguments": text}}]}), None);
        if piece.last {
            say(&json!({}), finish);
        }
        events
    }

    fn end(&mut self, tally: &Tally) -> Vec<String> {
        let mut events = Vec::new();
        if self.plan.usage != StreamUsage::Nowhere {
            events.push(usage_event(&self.plan, "chat.completion.chunk", tally.emitted));
        }
        events.push("data: [DONE]\n\n".to_owned());
        events
    }

    fn error(&self) -> Vec<String> {
        vec![event(&self.plan.error), "data: [DONE]\n\n".to_owned()]
    }
}

fn message(choice: &Choice) -> Value {
    let mut message = Map::new();
    let called = choice.call.as_ref().filter(|_| choice.finish == Finish::ToolCalls);
    let content = if called.is_some() { String::new() } else { choice.text() };
    message.insert("role".into(), json!("assistant"));
    message.insert("content".into(), json!(content));
    for name in ["refusal", "annotations", "audio", "function_call"] {
        message.insert(name.into(), Value::Null);
    }
    if let Some((id, name)) = called {
        let call =
            json!([{"id": id, "type": "function", "function": {"name": name, "arguments": choice.text()}}]);
        message.insert("tool_calls".into(), call);
    }
    message.insert("reasoning".into(), Value::Null);
    Value::Object(message)
}

fn logprobs(plan: &Plan, pieces: &[String]) -> Value {
    let Some(n) = plan.logprobs else { return Value::Null };
    let entry = |(token, logprob): &(String, f64)| json!({"token": token, "logprob": logprob, "bytes": token.as_bytes()});
    let content: Vec<Value> = pieces
        .iter()
        .map(|token| {
            let tops = text::alternatives(token, n.max(1));
            let mut own = tops.first().map(entry).unwrap_or_default();
            own["top_logprobs"] = tops.iter().take(n).map(entry).collect();
            own
        })
        .collect();
    json!({"content": content})
}

/// The usage of a stream's last chunk.
pub(crate) fn usage(plan: &Plan, emitted: u32) -> Map<String, Value> {
    let mut usage = Map::new();
    usage.insert("prompt_tokens".into(), json!(plan.prompt_tokens));
    usage.insert("total_tokens".into(), json!(plan.prompt_tokens + emitted));
    usage.insert("completion_tokens".into(), json!(emitted));
    usage
}

/// The usage of an answer in one piece.
pub(crate) fn full_usage(plan: &Plan, emitted: u32) -> Value {
    let mut usage = usage(plan, emitted);
    let details = json!({"cached_tokens": 0, "created_cache_tokens": 0, "multimodal_tokens": null});
    usage.insert("prompt_tokens_details".into(), if plan.prompt_details { details } else { Value::Null });
    usage.insert("completion_tokens_details".into(), Value::Null);
    Value::Object(usage)
}

/// Returns the chunk that `include_usage` requests.
pub(crate) fn usage_event(plan: &Plan, object: &str, emitted: u32) -> String {
    let mut usage = usage(plan, emitted);
    if plan.prompt_details {
        // A stream omits null fields, and only chat counts the tokens that it wrote to the cache.
        let mut details = json!({"cached_tokens": 0});
        if object == "chat.completion.chunk" {
            details["created_cache_tokens"] = json!(0);
        }
        usage.insert("prompt_tokens_details".into(), details);
    }
    event(&json!({
        "id": plan.id, "object": object, "created": plan.created, "model": plan.model, "choices": [],
        "usage": usage, "system_fingerprint": plan.fingerprint
    }))
}

pub(crate) fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}
