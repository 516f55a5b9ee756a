//! `/v1/responses` in both forms.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::{self, Choice, Piece, Plan, Shape, Tally, check_model, new_id, plan};
use super::chat::{conversation, template};
use super::chat_llama::timings;
use super::messages::event;
use super::request::Fields;
use super::send::give;
use crate::engine::{Engine, Finish};
use crate::flavour::Flavour;
use crate::reply::{Refusal, Reply};
use crate::text;

pub(crate) async fn answer(engine: &Arc<Engine>, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    let input = fields.required(&["input"])?;
    check_model(config, fields)?;
    let mut ask = answer::read(config, fields, &["max_output_tokens"], "stop")?;
    let messages = match input {
        Value::Array(items) => items.clone(),
        text => vec![json!({"role": "user", "content": text})],
    };
    template(config, messages.len())?;
    conversation(config.flavour, &messages, &mut ask);
    ask.prompt_tokens += text::count(fields.text("instructions").unwrap_or(""));
    let planned = plan(engine, &ask, "resp_")?;
    let item = new_id("msg_");
    let shape: Box<dyn Shape> = match config.flavour {
        Flavour::Vllm => Box::new(Vllm { plan: planned, item, sequence: 0 }),
        Flavour::Llamacpp => Box::new(Llama { plan: planned, item }),
    };
    give(engine, ask.stream, shape).await
}

fn text(plan: &Plan) -> String {
    plan.choices.first().map(Choice::text).unwrap_or_default()
}

fn piece_text(plan: &Plan, piece: Piece) -> &str {
    plan.choices
        .get(piece.choice)
        .and_then(|choice| choice.pieces.get(piece.index))
        .map_or("", String::as_str)
}

struct Vllm {
    plan: Plan,
    item: String,
    sequence: u32,
}

impl Vllm {
    /// The response object: still open, or with its output and usage.
    fn response(&self, done: Option<&Tally>) -> Value {
        let plan = &self.plan;
        let cut = plan.choices.first().is_some_and(|choice| choice.finish == Finish::Length);
        let (status, details, output, usage) = match done {
            None => ("in_progress", Value::Null, json!([]), Value::Null),
            Some(tally) => (
                if cut { "incomplete" } else { "completed" },
                if cut { json!({"reason": "max_output_tokens"}) } else { Value::Null },
                json!([self.item("completed", &json!([self.part(&Value::Null)]))]),
                self.usage(tally.emitted),
            ),
        };
        json!({
            "id": plan.id, "created_at": plan.created, "incomplete_details": details, "instructions": null,
            "metadata": null, "model": plan.model, "object": "response", "output": output,
            "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "none", "tools": [], "top_p": 1.0,
            "background": false, "max_output_tokens": plan.max_tokens, "max_tool_calls": null,
            "previous_response_id": null, "prompt": null, "reasoning": null, "service_tier": "auto",
            "status": status, "text": null, "top_logprobs": null, "truncation": "disabled", "usage": usage,
            "user": null, "presence_penalty": 0.0, "frequency_penalty": 0.0, "kv_transfer_params": null,
            "ec_transfer_params": null, "input_messages": null, "output_messages": null
        })
    }

    fn usage(&self, emitted: u32) -> Value {
        let n = self.plan.prompt_tokens;
        json!({
            "input_tokens": n,
            "input_tokens_details": {
                "cached_tokens": 0, "cache_write_tokens": 0, "input_tokens_per_turn": [], "cached_tokens_per_turn": []
            },
            "output_tokens": emitted,
            "output_tokens_details": {
                "reasoning_tokens": 0, "tool_output_tokens": 0, "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": []
            },
            "total_tokens": n + emitted
        })
    }

    fn item(&self, status: &str, content: &Value) -> Value {
        json!({
            "id": self.item, "content": content, "role": "assistant", "status": status, "type": "message",
            "phase": null
        })
    }

    fn part(&self, logprobs: &Value) -> Value {
        json!({"annotations": [], "text": text(&self.plan), "type": "output_text", "logprobs": logprobs})
    }

    /// Returns an event with its number and type, which come last.
    fn event(&mut self, kind: &str, fields: Value) -> String {
        let mut data = match fields {
            Value::Object(data) => data,
            _ => Map::new(),
        };
        data.insert("sequence_number".into(), json!(self.sequence));
        data.insert("type".into(), json!(kind));
        self.sequence += 1;
        event(kind, &Value::Object(data))
    }
}

impl Shape for Vllm {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn whole(&self, tally: &Tally) -> Value {
        self.response(Some(tally))
    }

    fn begin(&mut self) -> Vec<String> {
        let open = self.response(None);
        let item = self.item("in_progress", &json!([]));
        let part = json!({"annotations": [], "text": "", "type": "output_text", "logprobs": []});
        let id = self.item.clone();
        vec![
            self.event("response.created", json!({"response": open})),
            self.event("response.in_progress", json!({"response": open})),
            self.event("response.output_item.added", json!({"item": item, "output_index": 0})),
            self.event(
                "response.content_part.added",
                json!({"content_index": 0, "item_id": id, "output_index": 0, "part": part}),
            ),
        ]
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let delta = json!({
            "content_index": 0, "delta": piece_text(&self.plan, piece), "item_id": self.item, "logprobs": [],
            "output_index": 0
        });
        vec![self.event("response.output_text.delta", delta)]
    }

    fn end(&mut self, tally: &Tally) -> Vec<String> {
        let id = self.item.clone();
        let part = self.part(&Value::Null);
        let item = self.item("completed", &json!([part]));
        let whole = text(&self.plan);
        let response = self.response(Some(tally));
        vec![
            self.event(
                "response.output_text.done",
                json!({"content_index": 0, "item_id": id, "logprobs": [], "output_index": 0, "text": whole}),
            ),
            self.event(
                "response.content_part.done",
                json!({"content_index": 0, "item_id": id, "output_index": 0, "part": part}),
            ),
            self.event("response.output_item.done", json!({"item": item, "output_index": 0})),
            self.event("response.completed", json!({"response": response})),
        ]
    }

    fn error(&self) -> Vec<String> {
        vec![event("error", &self.plan.error)]
    }
}

struct Llama {
    plan: Plan,
    item: String,
}

impl Llama {
    fn usage(&self, emitted: u32) -> Value {
        let n = self.plan.prompt_tokens;
        json!({
            "input_tokens": n, "output_tokens": emitted, "total_tokens": n + emitted,
            "input_tokens_details": {"cached_tokens": 0}
        })
    }

    fn part(&self) -> Value {
        json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text(&self.plan)})
    }

    fn finished_item(&self) -> Value {
        json!({
            "type": "message", "status": "completed", "id": self.item, "content": [self.part()], "role": "assistant"
        })
    }
}

impl Shape for Llama {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn whole(&self, tally: &Tally) -> Value {
        let plan = &self.plan;
        json!({
            "completed_at": plan.created, "created_at": plan.created, "id": plan.id, "model": plan.model,
            "object": "response",
            "output": [{
                "content": [self.part()], "id": self.item, "role": "assistant", "status": "completed",
                "type": "message"
            }],
            "status": "completed", "usage": self.usage(tally.emitted)
        })
    }

    fn begin(&mut self) -> Vec<String> {
        let open = json!({"id": self.plan.id, "object": "response", "status": "in_progress"});
        let item = json!({
            "content": [], "id": self.item, "role": "assistant", "status": "in_progress", "type": "message"
        });
        let part = json!({"type": "output_text", "text": ""});
        let say = |kind: &str, key: &str, value: &Value| event(kind, &json!({"type": kind, key: value}));
        vec![
            say("response.created", "response", &open),
            say("response.in_progress", "response", &open),
            say("response.output_item.added", "item", &item),
            event(
                "response.content_part.added",
                &json!({"type": "response.content_part.added", "item_id": self.item, "part": part}),
            ),
        ]
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let kind = "response.output_text.delta";
        let delta = piece_text(&self.plan, piece);
        vec![event(kind, &json!({"type": kind, "item_id": self.item, "delta": delta}))]
    }

    fn end(&mut self, tally: &Tally) -> Vec<String> {
        let plan = &self.plan;
        let item = self.finished_item();
        let response = json!({
            "id": plan.id, "object": "response", "created_at": plan.created, "status": "completed",
            "model": plan.model, "output": [item], "usage": self.usage(tally.emitted)
        });
        let with_item = |kind: &str, key: &str, value: Value| {
            event(kind, &json!({"type": kind, "item_id": self.item, key: value}))
        };
        vec![
            with_item("response.output_text.done", "text", json!(text(plan))),
            with_item("response.content_part.done", "part", self.part()),
            event("response.output_item.done", &json!({"type": "response.output_item.done", "item": item})),
            event(
                "response.completed",
                &json!({"type": "response.completed", "response": response, "timings": timings(plan, tally)}),
            ),
        ]
    }

    fn error(&self) -> Vec<String> {
        vec![event("error", &self.plan.error)]
    }
}
