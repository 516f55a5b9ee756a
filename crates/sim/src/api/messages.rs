//! `/v1/messages` (and its token count) in both forms.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::{self, Ask, Piece, Plan, Shape, Tally, check_model, plan};
use super::chat::{content, conversation, template};
use super::request::Fields;
use super::send::give;
use crate::engine::{Engine, Finish};
use crate::flavour::Flavour;
use crate::reply::{Refusal, Reply, json_reply};
use crate::text;

pub(crate) async fn answer(engine: &Arc<Engine>, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    check_model(config, fields)?;
    let ask = prepare(engine, fields)?;
    if ask.max_tokens.is_none() && config.flavour == Flavour::Vllm {
        fields.required(&["max_tokens"])?;
    }
    let shape = Messages { flavour: config.flavour, plan: plan(engine, &ask, "chatcmpl-")? };
    give(engine, ask.stream, Box::new(shape)).await
}

pub(crate) fn count_tokens(engine: &Engine, fields: &Fields) -> Result<Reply, Refusal> {
    check_model(&engine.config, fields)?;
    let n = prepare(engine, fields)?.prompt_tokens;
    let count = match engine.config.flavour {
        Flavour::Vllm => json!({"input_tokens": n, "context_management": {"original_input_tokens": n}}),
        Flavour::Llamacpp => json!({"input_tokens": n}),
    };
    Ok(json_reply(engine.config.flavour, 200, &count))
}

fn prepare(engine: &Engine, fields: &Fields) -> Result<Ask, Refusal> {
    let config = &engine.config;
    let messages = fields.required(&["messages"])?;
    let messages = messages.as_array().map_or(&[][..], Vec::as_slice);
    let mut ask = answer::read(config, fields, &["max_tokens"], "stop_sequences")?;
    template(config, messages.len())?;
    conversation(config.flavour, messages, &mut ask);
    ask.prompt_tokens += text::count(&content(fields.get("system")));
    Ok(ask)
}

struct Messages {
    flavour: Flavour,
    plan: Plan,
}

impl Messages {
    /// Returns the usage of a finished answer. vLLM reports its cache only if it is started with that option.
    fn final_usage(&self, emitted: u32) -> Value {
        let mut usage = self.usage(emitted);
        if self.flavour == Flavour::Vllm && self.plan.prompt_details {
            usage["cache_creation_input_tokens"] = json!(0);
            usage["cache_read_input_tokens"] = json!(0);
        }
        usage
    }

    fn usage(&self, emitted: u32) -> Value {
        let n = self.plan.prompt_tokens;
        match self.flavour {
            Flavour::Vllm => json!({"input_tokens": n, "output_tokens": emitted}),
            Flavour::Llamacpp => {
                json!({"cache_read_input_tokens": 0, "input_tokens": n, "output_tokens": emitted})
            }
        }
    }

    /// Returns why the answer stopped, and the stop sequence if one was found.
    fn stop(&self) -> (&'static str, Option<&String>) {
        let Some(choice) = self.plan.choices.first() else { return ("end_turn", None) };
        match (choice.finish, &choice.stop_reason) {
            (_, Some(sequence)) => ("stop_sequence", Some(sequence)),
            (Finish::Length, None) => ("max_tokens", None),
            _ => ("end_turn", None),
        }
    }

    /// Returns an event of content block 0; the flavours differ in the position of the index.
    fn block(&self, kind: &str, key: &str, value: Value) -> String {
        let mut data = Map::new();
        data.insert("type".into(), json!(kind));
        if self.flavour == Flavour::Llamacpp {
            data.insert("index".into(), json!(0));
        }
        data.insert(key.into(), value);
        data.entry("index").or_insert(json!(0));
        event(kind, &Value::Object(data))
    }
}

impl Shape for Messages {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn whole(&self, tally: &Tally) -> Value {
        let plan = &self.plan;
        let (reason, sequence) = self.stop();
        let text = plan.choices.first().map(answer::Choice::text).unwrap_or_default();
        let mut whole = json!({
            "id": plan.id, "type": "message", "role": "assistant", "content": [{"type": "text", "text": text}],
            "model": plan.model, "stop_reason": reason, "usage": self.final_usage(tally.emitted)
        });
        // vLLM omits an absent stop sequence; llama-server sends null.
        if self.flavour == Flavour::Llamacpp || sequence.is_some() {
            whole["stop_sequence"] = json!(sequence);
        }
        whole
    }

    fn begin(&mut self) -> Vec<String> {
        let plan = &self.plan;
        let message = json!({
            "id": plan.id, "type": "message", "role": "assistant", "content": [], "model": plan.model,
            "stop_reason": null, "stop_sequence": null, "usage": self.usage(0)
        });
        vec![
            event("message_start", &json!({"type": "message_start", "message": message})),
            self.block("content_block_start", "content_block", json!({"type": "text", "text": ""})),
        ]
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let text = self.plan.choices.get(piece.choice).and_then(|choice| choice.pieces.get(piece.index));
        vec![self.block("content_block_delta", "delta", json!({"type": "text_delta", "text": text}))]
    }

    fn end(&mut self, tally: &Tally) -> Vec<String> {
        let (reason, sequence) = self.stop();
        let usage = match self.flavour {
            Flavour::Vllm => self.final_usage(tally.emitted),
            Flavour::Llamacpp => json!({"output_tokens": tally.emitted}),
        };
        let delta = json!({"stop_reason": reason, "stop_sequence": sequence});
        vec![
            event("content_block_stop", &json!({"type": "content_block_stop", "index": 0})),
            event("message_delta", &json!({"type": "message_delta", "delta": delta, "usage": usage})),
            event("message_stop", &json!({"type": "message_stop"})),
        ]
    }

    fn error(&self) -> Vec<String> {
        vec![event("error", &json!({"type": "error", "error": self.plan.error["error"]}))]
    }
}

pub(crate) fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
