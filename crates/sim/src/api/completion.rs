//! `/v1/completions` in both forms.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::{self, Choice, Piece, Plan, Shape, StreamUsage, Tally, check_model, plan};
use super::chat_llama;
use super::chat_vllm::{event, full_usage, usage, usage_event};
use super::request::Fields;
use super::send::give;
use crate::engine::Engine;
use crate::flavour::Flavour;
use crate::reply::{Refusal, Reply};
use crate::text;

pub(crate) async fn answer(engine: &Arc<Engine>, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    let prompt = fields.required(&["prompt"])?;
    check_model(config, fields)?;
    let mut ask = answer::read(config, fields, &["max_tokens"], "stop")?;
    ask.prompts = prompts(prompt);
    ask.n_chars = ask.prompts.iter().map(String::len).max().unwrap_or(0);
    // llama-server adds a start token and counts only the first prompt.
    ask.prompt_tokens = match config.flavour {
        Flavour::Vllm => ask.prompts.iter().map(|prompt| text::count(prompt)).sum(),
        Flavour::Llamacpp => ask.prompts.first().map_or(0, |prompt| text::count(prompt)) + 1,
    };
    ask.logprobs = fields.integer("logprobs")?.map(|n| n.clamp(0, 20) as usize);
    ask.echo = fields.flag("echo")?;
    let shape: Box<dyn Shape> = match config.flavour {
        Flavour::Vllm => Box::new(Vllm { plan: plan(engine, &ask, "cmpl-")? }),
        Flavour::Llamacpp => Box::new(Llama { plan: plan(engine, &ask, "chatcmpl-")? }),
    };
    give(engine, ask.stream, shape).await
}

/// Reads the prompts: a text, several texts, a list of token ids, or several such lists.
fn prompts(value: &Value) -> Vec<String> {
    let words = |ids: &[Value]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) if items.iter().all(Value::is_number) => vec![words(items)],
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::String(text) => text.clone(),
                Value::Array(ids) => words(ids),
                other => other.to_string(),
            })
            .collect(),
        other => vec![other.to_string()],
    }
}

struct Vllm {
    plan: Plan,
}

impl Vllm {
    fn text(&self, choice: &Choice) -> String {
        if self.plan.echo { format!("{}{}", choice.prompt, choice.text()) } else { choice.text() }
    }

    fn logprobs(&self, choice: &Choice) -> Value {
        let Some(n) = self.plan.logprobs else { return Value::Null };
        let mut tokens: Vec<&str> = Vec::new();
        if self.plan.echo {
            tokens.push(&choice.prompt);
        }
        let n_given = tokens.len();
        tokens.extend(choice.pieces.iter().map(String::as_str));
        let mut end = 0;
        let offsets: Vec<usize> = tokens
            .iter()
            .map(|token| {
                end += token.len();
                end - token.len()
            })
            .collect();
        // A token of the prompt has no probability.
        let made = |i: usize, value: Value| if i < n_given { Value::Null } else { value };
        let own = tokens.iter().enumerate().map(|(i, t)| made(i, json!(text::alternatives(t, 1)[0].1)));
        let tops = tokens.iter().enumerate().map(|(i, t)| {
            let named: Map<String, Value> = text::alternatives(t, n.max(1))
                .into_iter()
                .map(|(token, logprob)| (token, json!(logprob)))
                .collect();
            made(i, Value::Object(named))
        });
        let (own, tops): (Vec<Value>, Vec<Value>) = (own.collect(), tops.collect());
        json!({"text_offset": offsets, "token_logprobs": own, "tokens": tokens, "top_logprobs": tops})
    }
}

impl Shape for Vllm {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn whole(&self, tally: &Tally) -> Value {
        let plan = &self.plan;
        let mut spent = full_usage(plan, tally.emitted);
        // Chat says 0 here and completions null (recorded).
        if let Some(created) = spent.pointer_mut("/prompt_tokens_details/created_cache_tokens") {
            *created = Value::Null;
        }
        let prompt_logprobs = if plan.echo && plan.logprobs.is_some() { json!([null]) } else { Value::Null };
        let choices: Vec<Value> = plan
            .choices
            .iter()
            .enumerate()
            .map(|(index, choice)| {
                json!({
                    "index": index, "text": self.text(choice), "logprobs": self.logprobs(choice),
                    "finish_reason": choice.finish.name(), "stop_reason": choice.stop_reason, "token_ids": null,
                    "prompt_logprobs": prompt_logprobs, "prompt_token_ids": null, "routed_experts": null
                })
            })
            .collect();
        json!({
            "id": plan.id, "object": "text_completion", "created": plan.created, "model": plan.model,
            "choices": choices, "service_tier": null, "system_fingerprint": plan.fingerprint,
            "usage": spent, "kv_transfer_params": null, "ec_transfer_params": null,
            "metrics": null
        })
    }

    fn begin(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let plan = &self.plan;
        let Some(choice) = plan.choices.get(piece.choice) else { return Vec::new() };
        let text = choice.pieces.get(piece.index).map_or("", String::as_str);
        let shown =
            if plan.echo && piece.index == 0 { format!("{}{text}", choice.prompt) } else { text.to_owned() };
        let (finish, stop) =
            if piece.last { (Some(choice.finish.name()), choice.stop_reason.as_ref()) } else { (None, None) };
        let mut chunk = json!({
            "id": plan.id, "object": "text_completion", "created": plan.created, "model": plan.model,
            "choices": [{
                "index": piece.choice, "text": shown, "logprobs": null, "finish_reason": finish, "stop_reason": stop,
                "prompt_token_ids": null, "token_ids": null
            }]
        });
        if plan.usage == StreamUsage::Every {
            chunk["usage"] = Value::Object(usage(plan, piece.emitted));
        }
        if piece.last && plan.usage == StreamUsage::Nowhere {
            chunk["system_fingerprint"] = json!(plan.fingerprint);
        }
        vec![event(&chunk)]
    }

    fn end(&mut self, tally: &Tally) -> Vec<String> {
        let done = "data: [DONE]\n\n".to_owned();
        match self.plan.usage {
            StreamUsage::Nowhere => vec![done],
            _ => vec![usage_event(&self.plan, "text_completion", tally.emitted), done],
        }
    }

    fn error(&self) -> Vec<String> {
        vec![event(&self.plan.error), "data: [DONE]\n\n".to_owned()]
    }
}

struct Llama {
    plan: Plan,
}

impl Llama {
    fn chunk(&self, index: usize, text: &str, logprobs: &Value, finish: Option<&str>) -> Map<String, Value> {
        let plan = &self.plan;
        let choice = json!([{"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}]);
        let mut chunk = Map::new();
        chunk.insert("choices".into(), choice);
        chunk.insert("created".into(), json!(plan.created));
        chunk.insert("model".into(), json!(plan.model));
        chunk.insert("system_fingerprint".into(), json!(plan.fingerprint));
        chunk.insert("object".into(), json!("text_completion"));
        chunk
    }
}

impl Shape for Llama {
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
                    "text": choice.text(), "index": index,
                    "logprobs": chat_llama::logprobs(plan, &choice.pieces), "finish_reason": choice.finish.name()
                })
            })
            .collect();
        json!({
            "choices": choices, "created": plan.created, "model": plan.model, "system_fingerprint": plan.fingerprint,
            "object": "text_completion", "usage": chat_llama::usage(plan, plan.prompt_tokens, 0), "id": plan.id,
            "timings": chat_llama::timings(plan, tally)
        })
    }

    fn begin(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let Some(choice) = self.plan.choices.get(piece.choice) else { return Vec::new() };
        let Some(text) = choice.pieces.get(piece.index) else { return Vec::new() };
        let logprobs = chat_llama::logprobs(&self.plan, std::slice::from_ref(text)).unwrap_or_default();
        let mut chunk = self.chunk(piece.choice, text, &logprobs, None);
        chunk.insert("id".into(), json!(self.plan.id));
        vec![event(&Value::Object(chunk))]
    }

    fn end(&mut self, tally: &Tally) -> Vec<String> {
        let plan = &self.plan;
        let mut events = Vec::new();
        for (index, choice) in plan.choices.iter().enumerate() {
            let mut chunk = self.chunk(index, "", &Value::Null, Some(choice.finish.name()));
            let prompt_tokens = text::count(&choice.prompt) + 1;
            chunk.insert("usage".into(), chat_llama::usage(plan, prompt_tokens, index));
            chunk.insert("id".into(), json!(plan.id));
            chunk.insert("timings".into(), chat_llama::timings(plan, tally));
            events.push(event(&Value::Object(chunk)));
        }
        events.push("data: [DONE]\n\n".to_owned());
        events
    }
}
