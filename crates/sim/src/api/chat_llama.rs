//! Chat answers in the form of llama-server, as recorded from b11434.

use serde_json::{Map, Value, json};

use super::answer::{Choice, Piece, Plan, Shape, StreamUsage, Tally};
use super::chat_vllm::event;
use crate::engine::Finish;
use crate::text;

pub(crate) struct LlamaChat {
    pub plan: Plan,
}

impl LlamaChat {
    fn chunk(&self, choices: Value) -> Map<String, Value> {
        let plan = &self.plan;
        let mut chunk = Map::new();
        chunk.insert("choices".into(), choices);
        chunk.insert("created".into(), json!(plan.created));
        chunk.insert("id".into(), json!(plan.id));
        chunk.insert("model".into(), json!(plan.model));
        chunk.insert("system_fingerprint".into(), json!(plan.fingerprint));
        chunk.insert("object".into(), json!("chat.completion.chunk"));
        chunk
    }

    fn delta(&self, index: usize, delta: &Value, finish: Option<Finish>) -> Map<String, Value> {
        let finish = finish.map(Finish::name);
        self.chunk(json!([{"finish_reason": finish, "index": index, "delta": delta}]))
    }
}

impl Shape for LlamaChat {
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
                let mut one = Map::new();
                one.insert("finish_reason".into(), json!(choice.finish.name()));
                one.insert("index".into(), json!(index));
                one.insert("message".into(), message(choice));
                if let Some(logprobs) = logprobs(plan, &choice.pieces) {
                    one.insert("logprobs".into(), logprobs);
                }
                Value::Object(one)
            })
            .collect();
        json!({
            "choices": choices, "created": plan.created, "model": plan.model, "system_fingerprint": plan.fingerprint,
            "object": "chat.completion", "usage": usage(plan, plan.prompt_tokens, 0), "id": plan.id, "timings": timings(plan, tally)
        })
    }

    fn begin(&mut self) -> Vec<String> {
        let role = json!({"role": "assistant", "content": null});
        let begun =
            (0..self.plan.choices.len()).map(|index| event(&Value::Object(self.delta(index, &role, None))));
        begun.collect()
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let Some(choice) = self.plan.choices.get(piece.choice) else { return Vec::new() };
        let Some(text) = choice.pieces.get(piece.index) else { return Vec::new() };
        let delta = match &choice.call {
            None => json!({"content": text}),
            Some((id, name)) if piece.index == 0 => json!({"tool_calls": [{
                "index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": text}
            }]}),
            Some(_) => json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
        };
        let mut chunk = self.delta(piece.choice, &delta, None);
        if let Some(logprobs) = logprobs(&self.plan, std::slice::from_ref(text)) {
            chunk["choices"][0]["logprobs"] = logprobs;
        }
        vec![event(&Value::Object(chunk))]
    }

    fn end(&mut self, tally: &Tally) -> Vec<String> {
        let plan = &self.plan;
        let mut events = Vec::new();
        let n = plan.choices.len();
        for (index, choice) in plan.choices.iter().enumerate() {
            let mut chunk = self.delta(index, &json!({}), Some(choice.finish));
            if index + 1 == n && plan.usage == StreamUsage::Nowhere {
                chunk.insert("timings".into(), timings(plan, tally));
            }
            events.push(event(&Value::Object(chunk)));
            // Each choice has its own usage (recorded).
            if plan.usage != StreamUsage::Nowhere {
                let mut chunk = self.chunk(json!([]));
                chunk.insert("usage".into(), usage(plan, plan.prompt_tokens, index));
                chunk.insert("timings".into(), timings(plan, tally));
                events.push(event(&Value::Object(chunk)));
            }
        }
        events.push("data: [DONE]\n\n".to_owned());
        events
    }
}

fn message(choice: &Choice) -> Value {
    match choice.call.as_ref().filter(|_| choice.finish == Finish::ToolCalls) {
        None => json!({"role": "assistant", "content": choice.text()}),
        Some((id, name)) => json!({"role": "assistant", "content": null, "tool_calls": [{
            "type": "function", "function": {"name": name, "arguments": choice.text()}, "id": id
        }]}),
    }
}

/// Returns log-probabilities in llama-server's form, which is the same for chat and completions.
pub(crate) fn logprobs(plan: &Plan, pieces: &[String]) -> Option<Value> {
    let n = plan.logprobs?;
    let entry = |(token, logprob): &(String, f64)| {
        let id = text::hash(token.as_bytes()) % 32_000;
        json!({"id": id, "token": token, "bytes": token.as_bytes(), "logprob": logprob})
    };
    let content: Vec<Value> = pieces
        .iter()
        .map(|token| {
            let tops = text::alternatives(token, n.max(1));
            let mut own = tops.first().map(entry).unwrap_or_default();
            own["top_logprobs"] = tops.iter().take(n).map(entry).collect();
            own
        })
        .collect();
    Some(json!({"content": content}))
}

/// Returns the usage of one choice. An answer in one piece has only that of the first choice, even with several choices
/// (recorded).
pub(crate) fn usage(plan: &Plan, prompt_tokens: u32, index: usize) -> Value {
    let emitted = plan.choices.get(index).map_or(0, |choice| choice.pieces.len() as u32);
    json!({
        "completion_tokens": emitted, "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + emitted, "prompt_tokens_details": {"cached_tokens": 0}
    })
}

pub(crate) fn timings(plan: &Plan, tally: &Tally) -> Value {
    let (prompt_n, predicted_n) = (plan.prompt_tokens, first_length(plan));
    // The times are never 0, so that no rate is infinite.
    let prompt_ms = tally.timings.prompt.as_secs_f64().max(1e-6) * 1e3;
    let predicted_ms = tally.timings.decode.as_secs_f64().max(1e-6) * 1e3;
    json!({
        "cache_n": 0, "prompt_n": prompt_n, "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / f64::from(prompt_n.max(1)),
        "prompt_per_second": f64::from(prompt_n) * 1e3 / prompt_ms,
        "predicted_n": predicted_n, "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / f64::from(predicted_n.max(1)),
        "predicted_per_second": f64::from(predicted_n) * 1e3 / predicted_ms
    })
}

fn first_length(plan: &Plan) -> u32 {
    plan.choices.first().map_or(0, |choice| choice.pieces.len() as u32)
}
